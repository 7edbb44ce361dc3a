"""Session affinity keeps the calls of a session on one host, by cookies and the stateful session filter (A55)."""
