"""`trxds lb`, `sessions`, `xds`, `ruok` and `tap`, which show what the channels of a running program do.

`program` reads from it, `pages` and `taps` turn this into lines (pure), and `show` draws them on the screen.
"""
