"""Floor 0: what everything stands on, and knows nothing of gRPC's wire or of xDS."""
