"""`python -m trxds` is the command `trxds`."""

from .cli.main import main

main()
