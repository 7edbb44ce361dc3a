"""The sticky_priority policy keeps sessions in their cluster of an aggregate, also while another one serves (A55)."""
