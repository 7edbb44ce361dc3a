"""gRPC over HTTP/2: connections, streams and messages. Nothing here knows of xDS."""
