"""`trxds demo`: sessions keep their backends while the configuration changes under them.

`mesh` is the shop as a value, `story` what happens to it, `traffic` the clients, `verdict` what must
hold at the end. None of them prints; `screen` does, and `run` puts them together.
"""
