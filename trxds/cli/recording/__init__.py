"""Resources that clients have, saved as a file for `trxds plane` and `trxds rehearse`, without secrets.

`sources.py` gets them, from a control plane or a running program; `redaction.py` leaves secrets out; `file.py` writes.
"""
