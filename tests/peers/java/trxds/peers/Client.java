package trxds.peers;

import java.io.OutputStream;
import java.io.PrintStream;
import java.util.logging.LogManager;

/**
 * Client is a client of grpc-java that does what the tests say, as grpcio's does in tests/peers.
 *
 * <p>Without an argument it obeys commands, as grpcio_driven.py; with a number it plays orders, so many at once, as grpcio_outcomes.py.
 */
final class Client {
  public static void main(String[] arguments) {
    PrintStream errors = System.err;
    // It logs each mistake of the tests, and prints the exceptions of its threads.
    LogManager.getLogManager().reset();
    System.setErr(new PrintStream(OutputStream.nullOutputStream()));
    try {
      if (arguments.length == 0) {
        Commands.obey();
      } else {
        Orders.play(Integer.parseInt(arguments[0]));
      }
      System.exit(0); // whatever is open still
    } catch (Exception error) {
      error.printStackTrace(errors);
      System.exit(1);
    }
  }
}
