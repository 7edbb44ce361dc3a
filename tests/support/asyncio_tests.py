"""A test that is an asyncio program; the other async tests are Trio's."""

from __future__ import annotations

import asyncio
from functools import wraps

from .threads import PATIENCE


def in_asyncio(test):
    """Run the test in an event loop of its own; it fails if it takes longer than any step may."""

    @wraps(test)
    def run(*args, **kwargs):
        async def within_time():
            async with asyncio.timeout(PATIENCE):
                await test(*args, **kwargs)

        asyncio.run(within_time())

    return run
