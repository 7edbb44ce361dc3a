"""This file serves the admin surface of one channel, `open_channel(admin=...)`, and imports HTTP only if it is used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trxds.admin.address import Admin
    from trxds.admin.channel_source import Source


def checked_admin(admin: str | Admin | None) -> Admin | None:
    """Return the address as an `Admin`; `ValueError` if it is malformed or other machines could reach it."""
    if not isinstance(admin, str):
        return admin
    from trxds.admin.address import Admin

    return Admin(admin)


@asynccontextmanager
async def admin_endpoint(admin: Admin | None, channel: Source) -> AsyncIterator[None]:
    """Serve the admin surface while the block lasts; `OSError` if the address cannot be listened on."""
    if admin is None:
        yield
        return
    # Imported late: a channel without an admin surface needs no HTTP server.
    from trxds.admin.server import serve

    async with serve(channel, address=admin):
        yield
