"""`trxds lb`, `sessions`, `xds`, `ruok` and `tap`: a running program is asked what its channels do.

`program` asks it, `pages` and `taps` say what there is to see as lines, pure, and `show` brings them onto the screen.
"""
