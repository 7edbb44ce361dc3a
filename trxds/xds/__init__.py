"""Floor 2: the conversation with the control plane, from the bootstrap to each resource's latest state."""
