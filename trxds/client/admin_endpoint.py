"""This file serves the admin surface of one channel, `open_channel(admin=...)`, and imports HTTP only if it is used."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
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


def admin_endpoint(admin: Admin | None, channel: Source) -> AbstractAsyncContextManager[object]:
    """Return a block that serves the admin surface; entering raises `OSError` if the address cannot be listened on."""
    if admin is None:
        return nullcontext()
    # Imported late: a channel without an admin surface needs no HTTP server.
    from trxds.admin.server import serve

    return serve(channel, address=admin)
