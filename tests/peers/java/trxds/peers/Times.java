package trxds.peers;

import com.google.common.base.Stopwatch;
import com.google.gson.Gson;
import io.grpc.CallCredentials;
import io.grpc.ChannelConfigurator;
import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.internal.BackoffPolicy;
import io.grpc.internal.TimeProvider;
import io.grpc.xds.InternalGrpcBootstrapperImpl;
import io.grpc.xds.client.Bootstrapper.ServerInfo;
import io.grpc.xds.client.XdsClient;
import io.grpc.xds.client.XdsClientImpl;
import io.grpc.xds.client.XdsClientMetricReporter;
import io.grpc.xds.client.XdsTransportFactory;
import io.grpc.xds.client.XdsTransportFactory.XdsTransport;
import io.grpc.xds.internal.security.TlsContextManagerImpl;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Times are how long channels and xDS clients wait after a failure and for a resource: grpc-java has no options for them. */
record Times(double backoff, double resourceTimeout) {
  private static final int FIXED_RESOURCE_TIMEOUT = XdsClientImpl.INITIAL_RESOURCE_FETCH_TIMEOUT_SEC;

  /** The channel, which has to be new, with this backoff. */
  ManagedChannel hurry(ManagedChannel channel) throws ReflectiveOperationException {
    Field delegate = Class.forName("io.grpc.internal.ForwardingManagedChannel").getDeclaredField("delegate");
    delegate.setAccessible(true);
    Object inner = delegate.get(channel);
    Field backoffs = inner.getClass().getDeclaredField("backoffPolicyProvider");
    backoffs.setAccessible(true);
    backoffs.set(inner, backoffs());
    return channel;
  }

  private BackoffPolicy.Provider backoffs() {
    long delay = nanoseconds(backoff);
    return () -> () -> delay;
  }

  /** An xDS client for GRPC_XDS_BOOTSTRAP_CONFIG. */
  XdsClient xdsClient() throws Exception {
    Map<String, ?> document = new Gson().<Map<String, ?>>fromJson(System.getenv("GRPC_XDS_BOOTSTRAP_CONFIG"), Map.class);
    var bootstrap = InternalGrpcBootstrapperImpl.parseBootstrap(document);
    return new XdsClientImpl(
        transports(), bootstrap, new Timers(), backoffs(), Stopwatch::createUnstarted, TimeProvider.SYSTEM_TIME_PROVIDER,
        message -> "", new TlsContextManagerImpl(bootstrap), new XdsClientMetricReporter() {});
  }

  private XdsTransportFactory transports() throws ReflectiveOperationException {
    var made = Class.forName("io.grpc.xds.GrpcXdsTransportFactory")
        .getDeclaredConstructor(CallCredentials.class, ChannelConfigurator.class);
    made.setAccessible(true);
    Object factory = made.newInstance(null, null);
    Method create = factory.getClass().getDeclaredMethod("createForTest", ManagedChannel.class);
    create.setAccessible(true);
    return server -> {
      try {
        return (XdsTransport) create.invoke(factory, hurry(channelTo(server)));
      } catch (ReflectiveOperationException error) {
        throw new IllegalStateException(error);
      }
    };
  }

  private static ManagedChannel channelTo(ServerInfo server) {
    return Grpc.newChannelBuilder(server.target(), (ChannelCredentials) server.implSpecificConfig()).build();
  }

  static long nanoseconds(double seconds) {
    return (long) (seconds * 1e9);
  }

  /** Timers are those of an xDS client. */
  private final class Timers extends ScheduledThreadPoolExecutor {
    Timers() {
      super(1);
    }

    @Override
    public ScheduledFuture<?> schedule(Runnable task, long delay, TimeUnit unit) {
      return unit == TimeUnit.SECONDS && delay == FIXED_RESOURCE_TIMEOUT
          ? super.schedule(task, nanoseconds(resourceTimeout), TimeUnit.NANOSECONDS)
          : super.schedule(task, delay, unit);
    }
  }
}
