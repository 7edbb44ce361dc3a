"""weighted_round_robin (A58) gives hosts turns by the load that they report."""
