"""Floor 6: one RPC, from the caller's line of code to a stream and back."""
