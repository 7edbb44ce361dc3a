"""`open_channel(admin=...)`: the channel's feed, served to commands. Who does not ask for it imports no HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trxds.feed.address import Admin
    from trxds.feed.explained import Explaining


def checked_admin(admin: str | Admin | None) -> Admin | None:
    """`ValueError` for an address that is none, or is open to other machines."""
    if not isinstance(admin, str):
        return admin
    from trxds.feed.address import Admin

    return Admin(admin)


@asynccontextmanager
async def told_at(admin: Admin | None, channel: Explaining) -> AsyncIterator[None]:
    """`OSError` if nobody can listen there."""
    if admin is None:
        yield
        return
    from trxds.feed.serve import serve_at

    async with serve_at(admin, channel):
        yield
