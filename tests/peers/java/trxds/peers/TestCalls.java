package trxds.peers;

import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.testing.integration.Messages.BoolValue;
import io.grpc.testing.integration.Messages.ResponseParameters;
import io.grpc.testing.integration.Messages.SimpleRequest;
import io.grpc.testing.integration.Messages.SimpleResponse;
import io.grpc.testing.integration.Messages.StreamingInputCallRequest;
import io.grpc.testing.integration.Messages.StreamingOutputCallRequest;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * TestCalls changes the calls of grpc-java's TestService, which lacks some of what the tests ask for.
 *
 * <p>Each reply of UnaryCall names the backend, and the header "seen-authority" has the :authority of its request. The
 * call takes as long as its metadata "delay" says; by headers that go first its client knows that the call is here.
 *
 * <p>Both features of compression are there: a request that should be compressed and is not, or the reverse, is an
 * INVALID_ARGUMENT, and the replies of a stream are compressed as asked. With the metadata "fails: to reply" a unary
 * call sends its reply twice, which the server resets.
 */
final class TestCalls implements ServerInterceptor {
  private static final Metadata.Key<String> DELAY = key("delay");
  private static final Metadata.Key<String> FAILS = key("fails");
  private static final Metadata.Key<String> SEEN_AUTHORITY = key("seen-authority");

  private final String name;

  TestCalls(String name) {
    this.name = name;
  }

  private static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  @Override
  public <Q, R> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
    var changed = new Call<>(call, "to reply".equals(headers.get(FAILS)));
    var listener = new Listener<>(changed, next.startCall(changed, headers), headers.get(DELAY));
    if (headers.containsKey(DELAY)) {
      changed.sendHeaders(new Metadata());
    }
    return listener;
  }

  /** Call is a call whose replies are as the requests ask for. */
  private final class Call<Q, R> extends SimpleForwardingServerCall<Q, R> {
    private final Queue<Boolean> compressed = new ConcurrentLinkedQueue<>(); // for each reply of a stream to come
    private final boolean repliesTwice;
    private boolean namesServer;
    private boolean hasSentHeaders;

    Call(ServerCall<Q, R> call, boolean repliesTwice) {
      super(call);
      this.repliesTwice = repliesTwice;
    }

    /** Note what a request asks for. */
    void note(Object request) {
      if (request instanceof SimpleRequest simple) {
        namesServer = simple.getFillServerId();
      } else if (request instanceof StreamingOutputCallRequest streaming) {
        streaming.getResponseParametersList().stream()
            .map(ResponseParameters::getCompressed).map(BoolValue::getValue).forEach(compressed::add);
      }
    }

    @Override
    public void sendHeaders(Metadata headers) {
      if (hasSentHeaders) {
        return;
      }
      hasSentHeaders = true;
      if (getMethodDescriptor().getType() == MethodType.UNARY) {
        headers.put(SEEN_AUTHORITY, String.valueOf(getAuthority()));
      } else {
        super.setCompression("gzip");
      }
      super.sendHeaders(headers);
    }

    @Override
    public void setCompression(String compressor) {
      if (!hasSentHeaders) {
        super.setCompression(compressor);
      }
    }

    @Override
    @SuppressWarnings("unchecked")
    public void sendMessage(R message) {
      if (message instanceof SimpleResponse simple) {
        var named = simple.toBuilder().setHostname(name);
        message = (R) (namesServer ? named.setServerId(name) : named).build();
        if (repliesTwice) {
          super.sendMessage(message);
        }
      } else {
        super.setMessageCompression(Boolean.TRUE.equals(compressed.poll()));
      }
      super.sendMessage(message);
    }
  }

  /** Listener looks at requests before the service does. */
  private final class Listener<Q, R> extends SimpleForwardingServerCallListener<Q> {
    private final List<Boolean> compressed = Meter.COMPRESSED.get();
    private final Call<Q, R> call;
    private final String delay;
    private int requests;
    private boolean isRefused;

    Listener(Call<Q, R> call, ServerCall.Listener<Q> service, String delay) {
      super(service);
      this.call = call;
      this.delay = delay;
    }

    @Override
    public void onMessage(Q request) {
      boolean wasCompressed = compressed.get(requests++);
      if (isRefused) {
        return;
      }
      call.note(request);
      if (hasOtherCompression(request, wasCompressed)) {
        isRefused = true;
        var said = wasCompressed ? "the request came compressed" : "the request came uncompressed";
        call.close(Status.INVALID_ARGUMENT.withDescription(said), new Metadata());
      } else {
        super.onMessage(request);
      }
    }

    private boolean hasOtherCompression(Q request, boolean wasCompressed) {
      if (request instanceof SimpleRequest simple && simple.hasExpectCompressed()) {
        return simple.getExpectCompressed().getValue() != wasCompressed;
      }
      return request instanceof StreamingInputCallRequest part && part.hasExpectCompressed()
          && part.getExpectCompressed().getValue() != wasCompressed;
    }

    @Override
    public void onHalfClose() {
      if (isRefused) {
        return;
      }
      if (delay != null) {
        try {
          Thread.sleep(Backend.time(delay).toMillis());
        } catch (InterruptedException interrupted) {
          throw new AssertionError(interrupted);
        }
      }
      super.onHalfClose();
    }
  }
}
