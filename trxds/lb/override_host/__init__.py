"""The override_host policy (A55, A75): a pick with a session goes to the host of its cookie."""
