"""This file serves the admin surface of one channel, `open_channel(admin=...)`, and imports HTTP only if it is used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from trxds.core.arguments import check_type

if TYPE_CHECKING:
    from trxds.admin.address import Admin
    from trxds.admin.channel_source import Source


def checked_admin(admin: str | Admin | None) -> Admin | None:
    """Return the address as an `Admin`; `ValueError` if it is malformed or other machines could reach it."""
    if admin is None:
        return None
    from trxds.admin.address import Admin

    check_type("admin", admin, (str, Admin), "an address such as '127.0.0.1:9901', or a trxds.admin.Admin")
    return Admin(admin) if isinstance(admin, str) else admin


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
