"""Load: RPCs counted for the control plane (LRS), and the load that endpoints report out of band (ORCA, A51)."""
