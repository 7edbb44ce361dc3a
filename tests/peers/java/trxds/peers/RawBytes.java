package trxds.peers;

import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;

/** RawBytes is for methods without messages of their own. */
enum RawBytes implements MethodDescriptor.Marshaller<byte[]> {
  MARSHALLER;

  static MethodDescriptor<byte[], byte[]> method(String path, MethodType type) {
    return MethodDescriptor.newBuilder(MARSHALLER, MARSHALLER).setType(type).setFullMethodName(path.substring(1)).build();
  }

  @Override
  public InputStream stream(byte[] message) {
    return new ByteArrayInputStream(message);
  }

  @Override
  public byte[] parse(InputStream message) {
    try {
      return message.readAllBytes();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
