"""The command line, `trxds` or `python -m trxds`. It uses the public API and `trxds.testing`."""
