"""A nursery for the tasks that serve a block, such as a server's: they end when the block is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_background_nursery(reason: str) -> AsyncIterator[trio.Nursery]:
    """Open a nursery whose tasks are cancelled at the block's end, for that reason.

    An exception of the block comes out unchanged, and not in a group, as it comes out of Trio's own nurseries.
    """
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except Exception as error:
            failure = error
        nursery.cancel_scope.cancel(reason=reason)
    if failure is not None:
        raise failure
