"""Floor 1: xDS resources as frozen values. No network, no clock, no trio."""
