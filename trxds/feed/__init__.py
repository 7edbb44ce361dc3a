"""What a running program's channels do, as one snapshot and numbered changes: for commands, and the live page.

    async with trxds.feed.open(channel) as feed, feed.view() as view:
        async for message in view:
            ...

It looks at the rooms below and none of them knows it. While nobody watches there is no task and no hook.
"""

from .address import Admin
from .feed import Feed, open
from .serve import serve
from .view import View

__all__ = ["Admin", "Feed", "View", "open", "serve"]
