"""Floor 5: why the house was built: sessions that stay on their host (A55, A60, A75)."""
