"""The override_host policy sends a session's RPCs to the host of its cookie (A55, A75)."""
