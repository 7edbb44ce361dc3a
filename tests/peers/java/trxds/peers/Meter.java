package trxds.peers;

import io.grpc.Attributes;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.ServerStreamTracer;
import io.grpc.ServerTransportFilter;
import io.grpc.Status;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** Meter counts connections, and calls of the TestService; of each call it knows which messages came compressed. */
final class Meter extends ServerTransportFilter {
  /** Whether each message of this call came compressed, in their order. */
  static final Context.Key<List<Boolean>> COMPRESSED = Context.key("compressed");

  private static final String COUNTED = "grpc.testing.TestService/";
  private static final Metadata.Key<String> FAILS = Metadata.Key.of("fails", Metadata.ASCII_STRING_MARSHALLER);

  private int calls;
  private int mostAtOnce;
  private int connections;

  synchronized int mostAtOnce() {
    return mostAtOnce;
  }

  synchronized int connections() {
    return connections;
  }

  @Override
  public synchronized Attributes transportReady(Attributes attributes) {
    connections++;
    return attributes;
  }

  private synchronized void count(int change) {
    calls += change;
    mostAtOnce = Math.max(mostAtOnce, calls);
  }

  /** The tracers of the server's streams. A call with the metadata "fails: to begin" gets none, which ends it. */
  ServerStreamTracer.Factory tracers() {
    return new ServerStreamTracer.Factory() {
      @Override
      public ServerStreamTracer newServerStreamTracer(String method, Metadata headers) {
        if ("to begin".equals(headers.get(FAILS))) {
          throw new IllegalStateException("asked to fail");
        }
        return new Tracer(method.startsWith(COUNTED));
      }
    };
  }

  private final class Tracer extends ServerStreamTracer {
    private final List<Boolean> compressed = new CopyOnWriteArrayList<>();
    private final boolean isCounted;

    Tracer(boolean isCounted) {
      this.isCounted = isCounted;
      count(isCounted ? 1 : 0);
    }

    @Override
    public Context filterContext(Context context) {
      return context.withValue(COMPRESSED, compressed);
    }

    @Override
    public void inboundMessageRead(int number, long wireSize, long uncompressedSize) {
      compressed.add(uncompressedSize == -1); // which is not known yet, if it came compressed
    }

    @Override
    public void streamClosed(Status status) {
      count(isCounted ? -1 : 0);
    }
  }
}
