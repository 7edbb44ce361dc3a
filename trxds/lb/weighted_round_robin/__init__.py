"""weighted_round_robin (A58): turns by the load that endpoints report."""
