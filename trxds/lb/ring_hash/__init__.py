"""ring_hash (A42, A61, A76): equal hashes go to one endpoint."""
