package trxds.peers;

import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.testing.integration.TestServiceImpl;
import java.util.concurrent.Executors;

/** Backend is a server of grpc-java: the interop TestService. It writes JSON lines, the first {"listening": ADDRESS}. */
final class Backend {
  public static void main(String[] arguments) throws Exception {
    var server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
        .addService(new TestServiceImpl(Executors.newSingleThreadScheduledExecutor()))
        .build().start();
    System.out.println("{\"listening\": \"127.0.0.1:" + server.getPort() + "\"}");
    server.awaitTermination();
  }
}
