"""`python -m trxds` is the command `trxds`."""

from .cli.entry import main

main()
