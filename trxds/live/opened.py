"""The page for channels: their feed, and their explanations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial

import trxds
from trxds import feed
from trxds.feed.watched import watched

from .ask import ask
from .server import Page, serve_page


@asynccontextmanager
async def serve(
    *channels: trxds.Channel,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    names: Iterable[str] = (),
    metadata: bool = False,
) -> AsyncIterator[Page]:
    """Serve the live page of these channels while the block lasts; `page.url` opens it.

    Port 0 takes a free one. On a `host` that other machines reach there must be a `token`, 16 characters or more of
    those that stand in an address as they are; on loopback there may be one, to keep out who else has an account on
    the machine. `names` are host names under which the page is asked for (a proxy's, say), beside `localhost`, `host`
    and any address. The page shows the keys of calls' metadata; with `metadata` it shows the values as well.

    Raises `ValueError` for a missing or an unspeakable token, and `OSError` if nobody can listen there.
    """
    by_key = {each.key: channel for each, channel in zip(watched(channels), channels, strict=True)}
    async with (
        feed.open(*channels, metadata=metadata) as told,
        serve_page(
            partial(told.view, metadata=metadata), partial(ask, by_key), host=host, port=port, token=token, names=names
        ) as page,
    ):
        yield page
