"""`trxds rehearse`: a change of the configuration, tried on a simulated mesh before it is made.

The command (`command.py`) reads files and options into a `Plan`, runs it in a process of its own (`child.py`), and
shows the report, which is plain data (`report.py`), as text or as a page.
"""
