"""ring_hash sends RPCs with equal hashes to one endpoint (A42, A61, A76)."""
