package trxds.peers;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import io.grpc.CallOptions;
import io.grpc.ChannelCredentials;
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
import io.grpc.xds.XdsChannelCredentials;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;

/** Orders are channels, and the calls that are made on each one after the other: Order of tests/support/two_clients.py. */
final class Orders {
  private static final double PATIENCE = 8; // seconds for one call, connecting included
  private static final Gson GSON =
      new GsonBuilder().setFieldNamingPolicy(FieldNamingPolicy.LOWER_CASE_WITH_UNDERSCORES).serializeNulls().create();

  private static final Set<String> OWN_KEYS = Set.of("content-type", ":status", "grpc-previous-rpc-attempts");

  private static final class ChannelOrder {
    String target;
    List<CallOrder> calls;
    Map<String, ?> serviceConfig;
    Limits ours;
    double linger;
  }

  private static final class Limits {
    Integer maxReceiveSize;
    Integer maxSendSize;
  }

  private static final class CallOrder {
    String path;
    String kind = "unary";
    List<String> messages = List.of("");
    List<List<String>> metadata = List.of();
    Double timeout = PATIENCE; // null for ever
    Boolean waitForReady;
    int compression;
    double at;
    int atOnce = 1;
  }

  private record Outcome(
      String code, String message, List<List<String>> initial, List<List<String>> trailing, List<String> replies, double seconds) {}

  /** Read all orders, play so many at once, and write what came of them. */
  static void play(int atOnce) throws Exception {
    var orders = GSON.fromJson(new InputStreamReader(System.in, StandardCharsets.UTF_8), ChannelOrder[].class);
    ExecutorService players = Executors.newFixedThreadPool(atOnce);
    List<Callable<List<Outcome>>> tasks = new ArrayList<>();
    for (ChannelOrder order : orders) {
      tasks.add(() -> play(order));
    }
    System.out.println(GSON.toJson(all(players, tasks)));
  }

  private static <T> List<T> all(ExecutorService threads, List<Callable<T>> tasks) throws InterruptedException, ExecutionException {
    List<T> found = new ArrayList<>();
    for (Future<T> each : threads.invokeAll(tasks)) {
      found.add(each.get());
    }
    return found;
  }

  private static List<Outcome> play(ChannelOrder order) throws Exception {
    ManagedChannel channel = open(order);
    List<Outcome> outcomes = new ArrayList<>();
    long began = 0;
    for (CallOrder call : order.calls) {
      if (!outcomes.isEmpty()) {
        sleepUntil(began + Times.nanoseconds(call.at));
      }
      outcomes.add(makeAll(channel, call, order.ours));
      began = outcomes.size() == 1 ? System.nanoTime() : began;
    }
    sleepUntil(System.nanoTime() + Times.nanoseconds(order.linger));
    channel.shutdownNow();
    return outcomes;
  }

  private static void sleepUntil(long time) throws InterruptedException {
    TimeUnit.NANOSECONDS.sleep(time - System.nanoTime());
  }

  private static ManagedChannel open(ChannelOrder order) {
    ChannelCredentials credentials = InsecureChannelCredentials.create();
    if (System.getenv("XDS_CREDENTIALS") != null) {
      credentials = XdsChannelCredentials.create(credentials);
    }
    // grpc-java does not have the scheme ipv4.
    var builder = Grpc.newChannelBuilder(order.target.replaceFirst("^ipv4:", "dns:///"), credentials);
    if (order.serviceConfig != null) {
      builder.defaultServiceConfig(order.serviceConfig).disableServiceConfigLookUp();
    }
    if (order.ours.maxReceiveSize != null) {
      builder.maxInboundMessageSize(order.ours.maxReceiveSize);
    }
    return builder.build();
  }

  private static Outcome makeAll(ManagedChannel channel, CallOrder call, Limits limits) throws Exception {
    if (call.atOnce == 1) {
      return start(channel, call, limits).call();
    }
    // One after the other, for the threads of two calls may see that there is room for one.
    List<Callable<Outcome>> started = new ArrayList<>();
    for (int number = 0; number < call.atOnce; number++) {
      started.add(start(channel, call, limits));
    }
    List<Outcome> found = new ArrayList<>();
    for (Callable<Outcome> each : started) {
      found.add(each.call());
    }
    String codes = found.stream().map(Outcome::code).sorted().collect(Collectors.joining(", "));
    var messages = new TreeSet<>(found.stream().map(Outcome::message).toList());
    return new Outcome(codes, String.join(", ", messages), List.of(), List.of(), List.of(), 0);
  }

  /** Start the call; what is returned waits for its end. */
  private static Callable<Outcome> start(ManagedChannel channel, CallOrder order, Limits limits) {
    long began = System.nanoTime();
    Metadata sent;
    try {
      sent = metadata(order.metadata);
    } catch (IllegalArgumentException error) {
      return () -> new Outcome("REFUSED", error.toString(), List.of(), List.of(), List.of(), 0);
    }
    var initial = new AtomicReference<Metadata>();
    var trailing = new AtomicReference<Metadata>();
    var intercepted = ClientInterceptors.intercept(
        channel, MetadataUtils.newAttachHeadersInterceptor(sent), MetadataUtils.newCaptureMetadataInterceptor(initial, trailing));
    var call = intercepted.newCall(RawBytes.method(order.path, typeOf(order.kind)), options(order, limits));
    var replies = new Replies();
    List<byte[]> messages = order.messages.stream().map(Base64.getDecoder()::decode).toList();
    switch (order.kind) {
      case "unary" -> ClientCalls.asyncUnaryCall(call, messages.get(0), replies);
      case "server_stream" -> ClientCalls.asyncServerStreamingCall(call, messages.get(0), replies);
      case "client_stream" -> sendAll(messages, ClientCalls.asyncClientStreamingCall(call, replies));
      default -> sendAll(messages, ClientCalls.asyncBidiStreamingCall(call, replies));
    }
    return () -> {
      Status status = order.timeout == null ? replies.end.get() : replies.endWithin(order.timeout + 1);
      boolean isLost = !status.isOk() && typeOf(order.kind).serverSendsOneMessage();
      return new Outcome(
          status.getCode().name(), status.getDescription() == null ? "" : status.getDescription(),
          texts(initial.get()), texts(trailing.get()), isLost ? List.of() : replies.found, (System.nanoTime() - began) / 1e9);
    };
  }

  private static void sendAll(List<byte[]> messages, StreamObserver<byte[]> requests) {
    messages.forEach(requests::onNext);
    requests.onCompleted();
  }

  private static MethodType typeOf(String kind) {
    return switch (kind) {
      case "unary" -> MethodType.UNARY;
      case "client_stream" -> MethodType.CLIENT_STREAMING;
      case "server_stream" -> MethodType.SERVER_STREAMING;
      default -> MethodType.BIDI_STREAMING;
    };
  }

  private static CallOptions options(CallOrder order, Limits limits) {
    CallOptions options = CallOptions.DEFAULT;
    if (order.timeout != null) {
      options = options.withDeadlineAfter(Times.nanoseconds(order.timeout), TimeUnit.NANOSECONDS);
    }
    if (order.waitForReady != null && order.waitForReady) {
      options = options.withWaitForReady();
    }
    if (order.compression == 2) {
      options = options.withCompression("gzip");
    }
    return limits.maxSendSize == null ? options : options.withMaxOutboundMessageSize(limits.maxSendSize);
  }

  private static Metadata metadata(List<List<String>> pairs) {
    Metadata made = new Metadata();
    for (List<String> pair : pairs) {
      String key = pair.get(0);
      if (key.toLowerCase().endsWith(Metadata.BINARY_HEADER_SUFFIX)) {
        made.put(Metadata.Key.of(key, Metadata.BINARY_BYTE_MARSHALLER), Base64.getDecoder().decode(pair.get(1)));
      } else {
        made.put(Metadata.Key.of(key, Metadata.ASCII_STRING_MARSHALLER), pair.get(1));
      }
    }
    return made;
  }

  /** All pairs but those that other clients do not show, and binary ones as base64. */
  private static List<List<String>> texts(Metadata metadata) {
    List<List<String>> found = new ArrayList<>();
    for (String key : metadata == null ? new TreeSet<String>() : new TreeSet<>(metadata.keys())) {
      if (key.endsWith(Metadata.BINARY_HEADER_SUFFIX)) {
        metadata.getAll(Metadata.Key.of(key, Metadata.BINARY_BYTE_MARSHALLER))
            .forEach(value -> found.add(List.of(key, Base64.getEncoder().encodeToString(value))));
      } else if (!OWN_KEYS.contains(key)) {
        metadata.getAll(Metadata.Key.of(key, Metadata.ASCII_STRING_MARSHALLER)).forEach(value -> found.add(List.of(key, value)));
      }
    }
    return found;
  }

  /** Replies are those of a call, and its end. */
  private static final class Replies implements StreamObserver<byte[]> {
    final List<String> found = new ArrayList<>();
    final CompletableFuture<Status> end = new CompletableFuture<>();

    @Override
    public void onNext(byte[] reply) {
      found.add(Base64.getEncoder().encodeToString(reply));
    }

    @Override
    public void onError(Throwable error) {
      end.complete(Status.fromThrowable(error));
    }

    @Override
    public void onCompleted() {
      end.complete(Status.OK);
    }

    /** Calls of a channel that has failed by an exception of its own may never end. */
    Status endWithin(double seconds) throws InterruptedException, ExecutionException {
      try {
        return end.get(Times.nanoseconds(seconds), TimeUnit.NANOSECONDS);
      } catch (TimeoutException error) {
        return Status.UNKNOWN.withDescription("The call has not ended.");
      }
    }
  }
}
