package trxds.peers;

import com.google.gson.Gson;
import io.grpc.InsecureServerCredentials;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.ServerServiceDefinition;
import io.grpc.stub.ServerCalls;
import io.grpc.xds.XdsServerBuilder;
import io.grpc.xds.XdsServerCredentials;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * XdsBackend is servers of grpc-java that are configured by xDS.
 *
 * <pre>XdsBackend BOOTSTRAP LISTENER,LISTENER,... METHOD...</pre>
 *
 * <p>They answer each of these methods, such as a.B/C, with nothing. Once all have their listeners, which say port 0, it
 * writes {"listening": "ADDRESS,ADDRESS,..."}.
 */
final class XdsBackend {
  public static void main(String[] arguments) throws Exception {
    Map<String, ?> bootstrap = new Gson().<Map<String, ?>>fromJson(arguments[0], Map.class);
    List<String> addresses = new ArrayList<>();
    for (String listener : arguments[1].split(",")) {
      var address = new InetSocketAddress("127.0.0.1", 0);
      var builder = XdsServerBuilder.forAddress(address, XdsServerCredentials.create(InsecureServerCredentials.create()))
          .overrideBootstrapForTest(bootstrap)
          .ldsResourceNameResolver(name -> listener);
      for (int number = 2; number < arguments.length; number++) {
        var method = RawBytes.method("/" + arguments[number], MethodType.UNARY);
        builder.addService(ServerServiceDefinition.builder(method.getServiceName())
            .addMethod(method, ServerCalls.asyncUnaryCall((request, replies) -> {
              replies.onNext(new byte[0]);
              replies.onCompleted();
            }))
            .build());
      }
      addresses.add("127.0.0.1:" + builder.build().start().getPort()); // it waits for the listener
    }
    System.out.println(new Gson().toJson(Map.of("listening", String.join(",", addresses))));
    Thread.currentThread().join();
  }
}
