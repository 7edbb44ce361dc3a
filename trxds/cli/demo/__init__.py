"""`trxds demo`: sessions keep their backends while the configuration changes under them.

`mesh` has the shop as a value, `story` the changes, `traffic` the clients, and `verdict` the promises that must hold at
the end. Only `screen` prints. `run` puts them together.
"""
