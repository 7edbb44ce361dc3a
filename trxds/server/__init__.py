"""Floor 2: a gRPC server on the wire's own engine, for `trxds.admin` and `trxds.testing`."""
