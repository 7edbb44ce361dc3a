package trxds.peers;

import io.grpc.Codec;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.zip.DeflaterOutputStream;
import java.util.zip.InflaterInputStream;

/** Deflate is the codec of grpc-encoding "deflate", which grpc-java does not have. */
final class Deflate implements Codec {
  @Override
  public String getMessageEncoding() {
    return "deflate";
  }

  @Override
  public InputStream decompress(InputStream compressed) {
    return new InflaterInputStream(compressed);
  }

  @Override
  public OutputStream compress(OutputStream plain) {
    return new DeflaterOutputStream(plain);
  }
}
