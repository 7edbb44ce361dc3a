"""A name's addresses are tried by RFC 8305: on a clock that jumps, and once over real sockets."""

import errno
import os
import socket

import pytest
import trio

from trxds.transport.connect import TcpNetwork, first_connected


class Made:
    """Stands for a connection, and knows only whether it was closed."""

    def __init__(self, address):
        self.address = address
        self.closed = False
        self.socket = self

    def close(self):
        self.closed = True


class Hosts:
    """Maps addresses to the seconds until they answer, or the errno with which they refuse; unknown ones hang."""

    def __init__(self, **known):
        self.known = known
        self.tried = {}
        self.made = {}
        self.given_up = []

    async def dial(self, address):
        self.tried[address] = trio.current_time()
        answer = self.known.get(address)
        try:
            await trio.sleep(answer if isinstance(answer, float) else 0 if answer else 1e9)
        except trio.Cancelled:
            self.given_up.append(address)
            raise
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        self.made[address] = Made(address)
        return self.made[address]


async def test_the_first_address_that_connects_wins_the_race(autojump_clock):
    hosts = Hosts(a=0.1, b=0.1)
    assert (await first_connected(("a", "b"), hosts.dial)).address == "a"
    assert hosts.tried == {"a": 0}


async def test_the_next_address_is_tried_after_250_ms_without_an_answer(
    autojump_clock,
):
    hosts = Hosts(b=0.1)
    assert (await first_connected(("a", "b"), hosts.dial)).address == "b"
    assert (hosts.tried, hosts.given_up) == ({"a": 0, "b": 0.25}, ["a"])


async def test_the_next_address_is_tried_at_once_after_a_refusal(autojump_clock):
    hosts = Hosts(a=errno.ECONNREFUSED, b=0.1)
    assert (await first_connected(("a", "b"), hosts.dial)).address == "b"
    assert hosts.tried == {"a": 0, "b": 0}


async def test_a_slow_address_still_wins_over_a_later_one_that_is_slower(autojump_clock):
    hosts = Hosts(a=1.0, b=5.0)
    assert (await first_connected(("a", "b"), hosts.dial)).address == "a"
    assert hosts.given_up == ["b"]


async def test_addresses_of_both_families_are_tried_in_turn(autojump_clock):
    hosts = Hosts()
    with trio.move_on_after(1):
        await first_connected(("[::1]:1", "[::2]:1", "10.0.0.1:1"), hosts.dial)
    assert list(hosts.tried) == ["[::1]:1", "10.0.0.1:1", "[::2]:1"]


async def test_the_second_of_two_connections_made_in_one_step_is_closed(autojump_clock, nursery):
    moment, made = trio.Event(), []

    async def dial(address):
        await moment.wait()
        made.append(Made(address))
        return made[-1]

    async def have_them_answer():
        await trio.sleep(1)
        moment.set()

    nursery.start_soon(have_them_answer)
    winner = await first_connected(("a", "b"), dial)
    assert sorted(each.address for each in made) == ["a", "b"]
    assert [each for each in made if not each.closed] == [winner]


async def test_a_caller_cancelled_while_a_connection_is_made_leaves_none_open(autojump_clock):
    hosts = Hosts(a=0.1)
    with trio.CancelScope() as scope:

        async def dial(address):
            made = await hosts.dial(address)
            scope.cancel()
            return made

        await first_connected(("a",), dial)
    assert scope.cancelled_caught
    assert hosts.made["a"].closed


async def test_the_error_of_a_lost_race_names_each_address_with_its_reason(autojump_clock):
    hosts = Hosts(a=errno.ECONNREFUSED, b=errno.ENETUNREACH)
    with pytest.raises(ConnectionRefusedError, match=r" a: Connection refused; b: Network is unreachable$"):
        await first_connected(("a", "b"), hosts.dial)


async def test_the_error_of_a_single_address_is_unchanged(autojump_clock):
    error = ConnectionRefusedError(errno.ECONNREFUSED, "no")

    async def refuse(address):
        raise error

    with pytest.raises(ConnectionRefusedError) as caught:
        await first_connected(("a",), refuse)
    assert caught.value is error


class Names(trio.abc.HostnameResolver):
    def __init__(self, *addresses):
        self.addresses = addresses

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):
        return [(socket.AF_INET, type, 0, "", (address, port)) for address in self.addresses]

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError


async def test_a_name_is_connected_at_the_address_where_somebody_listens():
    with trio.fail_after(10), trio.socket.socket() as listener:
        await listener.bind(("127.0.0.1", 0))
        listener.listen()
        trio.socket.set_custom_hostname_resolver(Names("127.0.0.2", "127.0.0.1"))
        stream = await TcpNetwork().connect(f"plane.example:{listener.getsockname()[1]}")
        assert stream.socket.getpeername() == listener.getsockname()
        await stream.aclose()


async def test_connecting_to_an_invalid_host_name_is_an_os_error():
    with pytest.raises(OSError, match=r"'plane\.\.example' is no host name"):
        await TcpNetwork().connect("plane..example:443")


async def test_the_error_of_a_refused_connection_does_not_repeat_the_address():
    with trio.socket.socket() as nobody:
        await nobody.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError, match=r"^\[Errno \d+\] Connection refused$"):
            await TcpNetwork().connect(f"127.0.0.1:{nobody.getsockname()[1]}")
