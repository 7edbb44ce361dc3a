"""The reasons why a connection ended, in A94's words."""

import errno
import socket
import struct

import pytest
import trio

from trxds.transport.disconnect_reason import disconnect_reason
from trxds.transport.transport import transport_of


def broken(number):
    error = trio.BrokenResourceError("socket connection broken")
    error.__cause__ = OSError(number, "")
    return error


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (broken(errno.ECONNRESET), "connection reset"),
        (broken(errno.ETIMEDOUT), "connection timed out"),
        (broken(errno.ECONNABORTED), "connection aborted"),
        (broken(errno.EPIPE), "socket error"),
        (trio.BrokenResourceError("without a cause"), "socket error"),
        (None, "unknown"),
    ],
)
def test_each_transport_error_has_a_disconnect_reason(error, word):
    assert disconnect_reason(error) == word


async def test_a_reset_socket_is_the_disconnect_reason_connection_reset():
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    async with listener:
        client = await trio.open_tcp_stream(*listener.socket.getsockname())
        server = await listener.accept()
        server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.socket.close()
        with pytest.raises(trio.BrokenResourceError) as caught:
            await transport_of(client).receive()
        await client.aclose()
    assert disconnect_reason(caught.value) == "connection reset"
