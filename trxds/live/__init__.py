"""A page in the browser that shows what a program's channels do while they do it.

    import trxds.live

    async with trxds.live.serve(channel) as page:
        print(page.url)
        ...

It looks and never touches, and while nobody has it open it costs nothing. `access` says who may look, `document` what
the page is, `viewer` how a slow browser is kept from slowing anything else, `ask` what it may ask.
"""

from .opened import serve
from .server import Page

__all__ = ["Page", "serve"]
