"""What `trxds.sync` and `trxds.aio` share: Trio in a thread of its own, and functions that run there for others."""
