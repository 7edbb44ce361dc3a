"""`open_channel(admin=...)`: the admin surface of one channel. A program that does not ask for it imports no HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trxds.admin.address import Admin
    from trxds.admin.channel_source import Source


def checked_admin(admin: str | Admin | None) -> Admin | None:
    """Return the address; `ValueError` for one that is none, or that other machines could reach."""
    if not isinstance(admin, str):
        return admin
    from trxds.admin.address import Admin

    return Admin(admin)


@asynccontextmanager
async def admin_endpoint(admin: Admin | None, channel: Source) -> AsyncIterator[None]:
    """Serve the admin surface while the block lasts; `OSError` if nobody can listen there."""
    if admin is None:
        yield
        return
    from trxds.admin.server import serve

    async with serve(channel, address=admin):
        yield
