"""A gRPC server over `trxds.transport`, for `trxds.admin` and `trxds.testing`."""
