"""The tree of load balancing policies (A24, A27): configuration goes down, states and pickers come up."""
