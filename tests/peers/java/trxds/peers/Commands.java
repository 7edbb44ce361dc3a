package trxds.peers;

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import io.grpc.xds.XdsNameResolverProvider;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Commands are lines of JSON, of which each gets a line as its answer. */
final class Commands {
  private final ManagedChannel channel;
  private final Map<String, Background> waiting = new HashMap<>();
  private final Map<String, Background> streams = new HashMap<>();

  private Commands(String target, Times times) throws Exception {
    var xdsClient = times.xdsClient();
    channel = times.hurry(
        Grpc.newChannelBuilder(target, InsecureChannelCredentials.create())
            .setNameResolverArg(XdsNameResolverProvider.XDS_CLIENT_SUPPLIER, () -> xdsClient)
            .build());
  }

  static void obey() throws Exception {
    Commands commands = null;
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = lines.readLine()) != null; ) {
      JsonArray command = JsonParser.parseString(line).getAsJsonArray();
      Object answer = null;
      if (command.get(0).getAsString().equals("begin")) {
        var options = command.get(2).getAsJsonObject();
        var times = new Times(options.get("backoff").getAsDouble(), options.get("resource_timeout").getAsDouble());
        commands = new Commands(command.get(1).getAsString(), times);
      } else {
        answer = commands.run(command);
      }
      System.out.println(new Gson().toJson(answer));
    }
  }

  private Object run(JsonArray command) throws InterruptedException {
    if (command.get(0).getAsString().equals("calls")) {
      return calls(command.get(1).getAsJsonArray(), command.get(2).getAsDouble());
    }
    String name = command.get(1).getAsString();
    switch (command.get(0).getAsString()) {
      case "wait" -> waiting.put(name, wait(command.get(2).getAsString(), command.get(3)));
      case "forget" -> waiting.remove(name).cancel();
      case "shut" -> streams.remove(name).cancel();
      case "waited" -> {
        return waiting.get(name).outcome(command.get(2).getAsDouble());
      }
      case "open" -> {
        streams.put(name, open(command.get(2).getAsString()));
        return streams.get(name).talk(command.get(3).getAsDouble());
      }
      case "talk" -> {
        return streams.get(name).talk(command.get(2).getAsDouble());
      }
      default -> throw new IllegalArgumentException(command.toString());
    }
    return null;
  }

  private List<Object> calls(JsonArray orders, double timeout) throws InterruptedException {
    List<Object> found = new ArrayList<>();
    for (JsonElement each : orders) {
      JsonArray order = each.getAsJsonArray();
      List<Object> outcomes = new ArrayList<>();
      for (int number = 0; number < order.get(2).getAsInt(); number++) {
        var options = CallOptions.DEFAULT.withDeadlineAfter(Times.nanoseconds(timeout), TimeUnit.NANOSECONDS);
        outcomes.add(call(order.get(0).getAsString(), order.get(1).getAsJsonArray(), options).end());
      }
      found.add(outcomes);
    }
    return found;
  }

  private Background call(String path, JsonArray pairs, CallOptions options) {
    Metadata metadata = new Metadata();
    for (JsonElement pair : pairs) {
      var key = Metadata.Key.of(pair.getAsJsonArray().get(0).getAsString(), Metadata.ASCII_STRING_MARSHALLER);
      metadata.put(key, pair.getAsJsonArray().get(1).getAsString());
    }
    var intercepted = ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(metadata));
    var call = new Background(intercepted.newCall(RawBytes.method(path, MethodType.UNARY), options));
    ClientCalls.asyncUnaryCall(call.call, "x".getBytes(), call);
    return call;
  }

  private Background wait(String path, JsonElement deadline) {
    CallOptions options = CallOptions.DEFAULT.withWaitForReady();
    if (!deadline.isJsonNull()) {
      options = options.withDeadlineAfter(Times.nanoseconds(deadline.getAsDouble()), TimeUnit.NANOSECONDS);
    }
    return call(path, new JsonArray(), options);
  }

  private Background open(String path) {
    var stream = new Background(channel.newCall(RawBytes.method(path, MethodType.BIDI_STREAMING), CallOptions.DEFAULT));
    stream.requests = ClientCalls.asyncBidiStreamingCall(stream.call, stream);
    return stream;
  }

  /** Background is a call under way. An outcome is a code, the reply or the details, and an empty list where grpcio's has cookies. */
  private static final class Background implements StreamObserver<byte[]> {
    final ClientCall<byte[], byte[]> call;
    final BlockingQueue<List<Object>> outcomes = new LinkedBlockingQueue<>();
    StreamObserver<byte[]> requests; // of a stream

    Background(ClientCall<byte[], byte[]> call) {
      this.call = call;
    }

    @Override
    public void onNext(byte[] reply) {
      outcomes.add(List.of("OK", new String(reply, StandardCharsets.UTF_8), List.of()));
    }

    @Override
    public void onError(Throwable error) {
      Status status = Status.fromThrowable(error);
      outcomes.add(List.of(status.getCode().name(), String.valueOf(status.getDescription()), List.of()));
    }

    @Override
    public void onCompleted() {
      outcomes.add(List.of("OVER", "", List.of()));
    }

    List<Object> talk(double timeout) throws InterruptedException {
      requests.onNext("x".getBytes());
      return outcome(timeout);
    }

    List<Object> outcome(double timeout) throws InterruptedException {
      List<Object> found = outcomes.poll(Times.nanoseconds(timeout), TimeUnit.NANOSECONDS);
      return found != null ? found : List.of("PENDING", "", List.of());
    }

    /** What came of a unary call, once it is over: until then it counts for the limit of its cluster. */
    List<Object> end() throws InterruptedException {
      List<Object> found = outcomes.take();
      if (found.get(0).equals("OK")) {
        outcomes.take();
      }
      return found;
    }

    void cancel() {
      call.cancel("by the test", null);
    }
  }
}
