"""Large meshes: a coarse model of 10,000 clients and 1,000 hosts, checked against the real client at 100 and 100.

`model.py` computes, `real.py` lets the real client run in simulations, `check.py` compares the two at a size that both
can do, and `run.py` (`make scale`) writes the figures and plots of docs/scale.md.
"""
