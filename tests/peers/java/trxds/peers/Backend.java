package trxds.peers;

import com.google.gson.Gson;
import com.google.gson.JsonParser;
import io.grpc.DecompressorRegistry;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerCredentials;
import io.grpc.ServerInterceptors;
import io.grpc.TlsServerCredentials;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.ChannelzService;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.protobuf.services.ProtoReflectionServiceV1;
import io.grpc.services.MetricRecorder;
import io.grpc.testing.integration.TestServiceImpl;
import io.grpc.xds.orca.OrcaMetricReportingServerInterceptor;
import io.grpc.xds.orca.OrcaServiceImpl;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import sun.misc.Signal;

/**
 * Backend is a server of grpc-java: the interop TestService, as TestCalls changes it, with server reflection, health,
 * channelz and ORCA load reports.
 *
 * <pre>Backend -name blue [-host 127.0.0.1] [-port 0] [-max_age 1s] [-max_age_grace 1s] [-max_idle 1s] [-max_streams 2]
 *   [-keepalive 1s] [-keepalive_timeout 1s] [-permit_keepalive 1s]
 *   [-window BYTES] [-max_message BYTES] [-max_metadata BYTES] [-soft_max_metadata BYTES] [-max_resets COUNT]
 *   [-qps COUNT] [-deflate true] [-cert FILE -key FILE [-client_ca FILE]]</pre>
 *
 * <p>With a certificate it serves TLS, and with a client_ca clients have to show theirs. max_resets is for half a minute.
 * grpc-java has gzip alone, with deflate it reads that too. qps is what its load reports say.
 *
 * <p>SIGTERM is shutdown(), SIGINT is shutdownNow(). A line {"health": "NOT_SERVING"} on stdin sets its health, of all
 * services or of {"service": NAME}. It writes JSON objects to stdout, a line each: {"listening": ADDRESS}, {"health":
 * STATUS} when that is set and, at its end, {"most_at_once": CALLS, "connections": COUNT}.
 */
final class Backend {
  private static final int MAX_MESSAGE = 16 << 20; // as grpc-java's own interop server has it

  private final Map<String, String> flags = new HashMap<>();
  private final Meter meter = new Meter();
  private final HealthStatusManager health = new HealthStatusManager();
  private final Server server;

  public static void main(String[] arguments) throws Exception {
    new Backend(arguments).run();
  }

  private Backend(String[] arguments) throws Exception {
    for (int i = 0; i < arguments.length; i += 2) {
      flags.put(arguments[i].substring(1), arguments[i + 1]);
    }
    var scheduler = Executors.newSingleThreadScheduledExecutor();
    var load = MetricRecorder.newInstance();
    ifNumber("qps", load::setQpsMetric);
    var interceptors = new ArrayList<>(TestServiceImpl.interceptors());
    interceptors.add(0, OrcaMetricReportingServerInterceptor.create(load));
    interceptors.add(new TestCalls(flags.getOrDefault("name", "backend"))); // the last one is next to the service
    var builder = NettyServerBuilder
        .forAddress(new InetSocketAddress(flags.getOrDefault("host", "127.0.0.1"), number("port", 0)), credentials())
        .addService(ServerInterceptors.interceptForward(new TestServiceImpl(scheduler, load), interceptors))
        .addService(OrcaServiceImpl.createService(scheduler, load, 1, TimeUnit.SECONDS))
        .addService(ProtoReflectionServiceV1.newInstance())
        .addService(health.getHealthService())
        .addService(ChannelzService.newInstance(100))
        .addTransportFilter(meter)
        .addStreamTracerFactory(meter.tracers())
        .maxInboundMessageSize(number("max_message", MAX_MESSAGE));
    ifNumber("max_streams", builder::maxConcurrentCallsPerConnection);
    ifNumber("window", builder::flowControlWindow);
    ifNumber("max_metadata", builder::maxInboundMetadataSize);
    ifNumber("soft_max_metadata", soft -> builder.maxInboundMetadataSize(soft, number("max_metadata", 8192)));
    ifNumber("max_resets", count -> builder.maxRstFramesPerWindow(count, 30));
    ifTime("max_age", nanos -> builder.maxConnectionAge(nanos, TimeUnit.NANOSECONDS));
    ifTime("max_age_grace", nanos -> builder.maxConnectionAgeGrace(nanos, TimeUnit.NANOSECONDS));
    ifTime("max_idle", nanos -> builder.maxConnectionIdle(nanos, TimeUnit.NANOSECONDS));
    ifTime("keepalive", nanos -> builder.keepAliveTime(nanos, TimeUnit.NANOSECONDS));
    ifTime("keepalive_timeout", nanos -> builder.keepAliveTimeout(nanos, TimeUnit.NANOSECONDS));
    ifTime("permit_keepalive", nanos -> builder.permitKeepAliveTime(nanos, TimeUnit.NANOSECONDS));
    if (flags.containsKey("deflate")) {
      builder.decompressorRegistry(DecompressorRegistry.getDefaultInstance().with(new Deflate(), true));
    }
    server = builder.build();
  }

  private void run() throws Exception {
    server.start();
    Signal.handle(new Signal("TERM"), signal -> server.shutdown());
    Signal.handle(new Signal("INT"), signal -> server.shutdownNow());
    tell(Map.of("listening", flags.getOrDefault("host", "127.0.0.1") + ":" + server.getPort()));
    var commands = new Thread(this::obey);
    commands.setDaemon(true);
    commands.start();
    server.awaitTermination();
    tell(Map.of("most_at_once", meter.mostAtOnce(), "connections", meter.connections()));
    System.exit(0);
  }

  /** Obey what comes by stdin, until its end. */
  private void obey() {
    try (var lines = new BufferedReader(new InputStreamReader(System.in))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        var command = JsonParser.parseString(line).getAsJsonObject();
        var service = command.has("service") ? command.get("service").getAsString() : "";
        var status = command.get("health").getAsString();
        health.setStatus(service, ServingStatus.valueOf(status));
        tell(Map.of("health", status));
      }
    } catch (IOException error) {
      throw new AssertionError(error);
    }
  }

  private ServerCredentials credentials() throws IOException {
    if (!flags.containsKey("cert")) {
      return InsecureServerCredentials.create();
    }
    var secure = TlsServerCredentials.newBuilder()
        .keyManager(new File(flags.get("cert")), new File(flags.get("key")));
    if (flags.containsKey("client_ca")) {
      secure.trustManager(new File(flags.get("client_ca"))).clientAuth(TlsServerCredentials.ClientAuth.REQUIRE);
    }
    return secure.build();
  }

  private int number(String flag, int other) {
    return flags.containsKey(flag) ? Integer.parseInt(flags.get(flag)) : other;
  }

  private void ifNumber(String flag, Consumer<Integer> use) {
    if (flags.containsKey(flag)) {
      use.accept(number(flag, 0));
    }
  }

  private void ifTime(String flag, Consumer<Long> use) {
    if (flags.containsKey(flag)) {
      use.accept(time(flags.get(flag)).toNanos());
    }
  }

  /** A time as Go writes it: 200ms or 5s. */
  static Duration time(String text) {
    return text.endsWith("ms")
        ? Duration.ofMillis(Long.parseLong(text.substring(0, text.length() - 2)))
        : Duration.parse("PT" + text);
  }

  private static synchronized void tell(Map<String, ?> event) {
    System.out.println(new Gson().toJson(event));
  }
}
