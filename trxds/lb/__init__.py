"""Floor 4: the tree of load balancing policies."""
