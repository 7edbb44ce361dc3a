"""The system's network, over a socket that connects nowhere: addresses of an interface, and cancelled attempts."""

from __future__ import annotations

import errno
import socket

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trxds.transport.connect import TcpNetwork, connect_error

INDEX, INTERFACE = socket.if_nameindex()[0]


class NotedSocket(trio.socket.SocketType):
    """A socket that notes where it is to connect to, and waits for ever."""

    def __init__(self) -> None:
        self.destination: object = None
        self.is_closed = False

    async def connect(self, address: object) -> None:
        self.destination = address
        await trio.sleep_forever()

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
async def noted_socket() -> NotedSocket:
    noted = NotedSocket()

    class Factory(trio.abc.SocketFactory):
        def socket(self, *_: object) -> NotedSocket:
            return noted

    trio.socket.set_custom_socket_factory(Factory())
    return noted


@pytest.mark.parametrize("zone", [str(INDEX), INTERFACE])
async def test_a_link_local_address_is_connected_on_its_interface(zone: str, noted_socket, nursery) -> None:
    nursery.start_soon(TcpNetwork().connect, f"[fe80::1%{zone}]:443")
    await wait_all_tasks_blocked()
    assert noted_socket.destination == ("fe80::1", 443, 0, INDEX)


async def test_an_interface_that_does_not_exist_is_an_error_that_says_so() -> None:
    with pytest.raises(OSError, match="no network interface 'none'"):
        await TcpNetwork().connect("[fe80::1%none]:443")


async def test_an_attempt_to_connect_that_is_cancelled_leaves_no_socket(noted_socket) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(TcpNetwork().connect, "10.0.0.1:443")
            await wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    assert noted_socket.is_closed


def test_the_error_behind_that_of_trio_is_the_last_one_that_it_has_gathered() -> None:
    gathered = ExceptionGroup("", [OSError(errno.ENETUNREACH, "unreachable"), OSError(errno.ECONNREFUSED, "refused")])
    error = OSError("all attempts to connect failed")
    error.__cause__ = gathered  # as `trio.open_tcp_stream` raises it
    assert connect_error(error) is gathered.exceptions[-1]
