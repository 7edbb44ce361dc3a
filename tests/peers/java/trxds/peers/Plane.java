package trxds.peers;

import com.google.common.util.concurrent.MoreExecutors;
import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.protobuf.Any;
import com.google.protobuf.Message;
import com.google.protobuf.TypeRegistry;
import com.google.protobuf.util.JsonFormat;
import com.google.rpc.Status;
import io.envoyproxy.controlplane.cache.v3.SimpleCache;
import io.envoyproxy.controlplane.cache.v3.Snapshot;
import io.envoyproxy.controlplane.server.DiscoveryServerCallbacks;
import io.envoyproxy.controlplane.server.ExecutorGroup;
import io.envoyproxy.controlplane.server.V3DiscoveryServer;
import io.envoyproxy.controlplane.server.serializer.DefaultProtoResourcesSerializer;
import io.envoyproxy.envoy.config.cluster.v3.Cluster;
import io.envoyproxy.envoy.config.endpoint.v3.ClusterLoadAssignment;
import io.envoyproxy.envoy.config.listener.v3.Listener;
import io.envoyproxy.envoy.config.route.v3.RouteConfiguration;
import io.envoyproxy.envoy.extensions.filters.http.router.v3.Router;
import io.envoyproxy.envoy.extensions.filters.http.stateful_session.v3.StatefulSession;
import io.envoyproxy.envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager;
import io.envoyproxy.envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState;
import io.envoyproxy.envoy.extensions.upstreams.http.v3.HttpProtocolOptions;
import io.envoyproxy.envoy.service.discovery.v3.DeltaDiscoveryRequest;
import io.envoyproxy.envoy.service.discovery.v3.DiscoveryRequest;
import io.grpc.InsecureServerCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;

/**
 * Plane is a control plane made of Envoy's java-control-plane: its SimpleCache, and its server for both ADS protocols.
 *
 * <p>plane [-version-per-type] [-version-prefix TEXT] [-listen ADDRESS]
 *
 * <p>Each line on stdin is one snapshot: a JSON array of resources, each a google.protobuf.Any in proto-JSON form. What
 * happens is written to stdout, a JSON object in a line: {"listening": ADDRESS}, {"snapshot": VERSION}, {"request": {...}}.
 */
final class Plane implements DiscoveryServerCallbacks {
  // Every client is given the same snapshot, whatever its node says.
  private static final String EVERY_NODE = "every node";
  private static final Gson GSON = new Gson();
  // With each come the types that its file needs, such as google.protobuf.Struct.
  private static final TypeRegistry TYPES = TypeRegistry.newBuilder()
      .add(Cluster.getDescriptor()).add(ClusterLoadAssignment.getDescriptor()).add(Listener.getDescriptor())
      .add(RouteConfiguration.getDescriptor()).add(HttpConnectionManager.getDescriptor()).add(Router.getDescriptor())
      .add(StatefulSession.getDescriptor()).add(CookieBasedSessionState.getDescriptor())
      .add(HttpProtocolOptions.getDescriptor()).add(com.github.xds.type.v3.TypedStruct.getDescriptor()).build();

  private final boolean versionPerType;
  private final String versionPrefix;
  private final Map<Class<?>, List<?>> served = new HashMap<>();
  private final Map<Class<?>, Integer> changes = new HashMap<>();

  private Plane(boolean versionPerType, String versionPrefix) {
    this.versionPerType = versionPerType;
    this.versionPrefix = versionPrefix;
  }

  public static void main(String[] arguments) throws Exception {
    var perType = false;
    var prefix = "";
    var address = new InetSocketAddress("127.0.0.1", 0);
    for (var flags = List.of(arguments).iterator(); flags.hasNext();) {
      switch (flags.next()) {
        // What has not changed keeps its version; else all types have the snapshot's.
        case "-version-per-type" -> perType = true;
        case "-version-prefix" -> prefix = flags.next();
        case "-listen" -> {
          var parts = flags.next().split(":");
          address = new InetSocketAddress(parts[0], Integer.parseInt(parts[1]));
        }
        default -> throw new IllegalArgumentException(List.of(arguments).toString());
      }
    }
    new Plane(perType, prefix).run(address);
  }

  private void run(InetSocketAddress address) throws Exception {
    var snapshots = new SimpleCache<String>(node -> EVERY_NODE);
    // By default any thread sends, so a response that was made before another one may leave after it.
    var threads = Executors.newCachedThreadPool();
    ExecutorGroup oneForEachStream = () -> MoreExecutors.newSequentialExecutor(threads);
    var xds =
        new V3DiscoveryServer(List.of(this), snapshots, oneForEachStream, new DefaultProtoResourcesSerializer());
    var server = NettyServerBuilder.forAddress(address, InsecureServerCredentials.create())
        .addService(xds.getAggregatedDiscoveryServiceImpl()).build().start();
    tell(Map.of("listening", address.getHostString() + ":" + server.getPort()));
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var version = 1;
    for (var line = lines.readLine(); line != null; line = lines.readLine(), version++) {
      snapshots.setSnapshot(EVERY_NODE, parse(line, version));
      tell(Map.of("snapshot", version));
    }
    System.exit(0); // whoever started the plane has no more use for it
  }

  private Snapshot parse(String line, int snapshot) throws Exception {
    var clusters = new ArrayList<Cluster>();
    var endpoints = new ArrayList<ClusterLoadAssignment>();
    var listeners = new ArrayList<Listener>();
    var routes = new ArrayList<RouteConfiguration>();
    for (var text : GSON.fromJson(line, JsonArray.class)) {
      var packed = Any.newBuilder();
      JsonFormat.parser().usingTypeRegistry(TYPES).merge(text.toString(), packed);
      var resource = packed.build();
      if (resource.is(Cluster.class)) {
        clusters.add(resource.unpack(Cluster.class));
      } else if (resource.is(ClusterLoadAssignment.class)) {
        endpoints.add(resource.unpack(ClusterLoadAssignment.class));
      } else if (resource.is(Listener.class)) {
        listeners.add(resource.unpack(Listener.class));
      } else {
        routes.add(resource.unpack(RouteConfiguration.class));
      }
    }
    return Snapshot.create(
        clusters, version(Cluster.class, clusters, snapshot),
        endpoints, version(ClusterLoadAssignment.class, endpoints, snapshot),
        listeners, version(Listener.class, listeners, snapshot),
        routes, version(RouteConfiguration.class, routes, snapshot),
        List.of(), versionPrefix + snapshot);
  }

  private <T extends Message> String version(Class<T> type, List<T> resources, int snapshot) {
    if (versionPerType && !resources.equals(served.put(type, resources))) {
      changes.merge(type, 1, Integer::sum);
    }
    return versionPrefix + (versionPerType ? changes.getOrDefault(type, 0) : snapshot);
  }

  @Override
  public void onV3StreamRequest(long stream, DiscoveryRequest request) {
    tellOfRequest("sotw", request.getTypeUrl(), request.getResponseNonce(), request.getErrorDetail());
  }

  @Override
  public void onV3StreamDeltaRequest(long stream, DeltaDiscoveryRequest request) {
    tellOfRequest("delta", request.getTypeUrl(), request.getResponseNonce(), request.getErrorDetail());
  }

  // A NACK is a request that has an error.
  private static void tellOfRequest(String protocol, String typeUrl, String nonce, Status detail) {
    tell(Map.of("request",
        Map.of("protocol", protocol, "type_url", typeUrl, "nonce", nonce, "error", detail.getMessage())));
  }

  // It holds a lock, because requests come from several threads.
  private static synchronized void tell(Map<String, ?> event) {
    System.out.println(GSON.toJson(event));
    System.out.flush();
  }
}
