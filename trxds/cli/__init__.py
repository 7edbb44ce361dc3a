"""The command line, `trxds` or `python -m trxds`; it stands on the public API and `trxds.testing`."""
