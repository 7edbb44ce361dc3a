"""Load reports go both ways: RPCs are counted for the control plane (LRS), and endpoints report theirs (ORCA, A51)."""
