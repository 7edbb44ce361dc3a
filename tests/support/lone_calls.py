"""Calls that are alone on their connection, one after the other."""

from __future__ import annotations

from typing import Any

import trio

from trxds.core.status import OK
from trxds.transport.client_stream import ClientStream
from trxds.transport.connection import Connection


async def asked(connection: Connection, server: Any, request: Any) -> None:
    """One lone call that is answered."""
    stream = connection.open_stream(request)
    assert stream is not None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answered, stream)
        await server.answer(await server.request(), b"echo")


async def answered(stream: ClientStream) -> None:
    assert await stream.receive_unary() == b"echo" and stream.status == OK
