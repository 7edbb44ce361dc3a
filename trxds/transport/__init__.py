"""Floor 1: gRPC over HTTP/2. Knows connections, streams and messages, and nothing of xDS."""
