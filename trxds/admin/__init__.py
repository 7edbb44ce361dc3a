"""The admin surface: one address at which operators look into a running program by tools, commands and a browser.

    async with trxds.open_channel("xds:///shop", admin="127.0.0.1:9901") as channel:
        ...

    grpcdebug 127.0.0.1:9901 xds status         CSDS (A40), channelz (A14) and health, by gRPC
    trxds sessions 127.0.0.1:9901               the state stream, as lines of JSON
    http://127.0.0.1:9901/                      the page

`serve` does the same for several channels, and for xDS clients that channels share. The admin surface only reads.
"""

from .address import Admin
from .server import page_url, serve

__all__ = ["Admin", "page_url", "serve"]
