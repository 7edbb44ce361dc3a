"""The client side of an RPC: from the caller's line of code to a stream, and back."""
