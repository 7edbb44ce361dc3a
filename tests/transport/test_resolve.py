"""The platform's resolver, with Trio's own stand-in where a name would need a network."""

import socket

import pytest
import trio

from trxds.transport.connect import TcpNetwork
from trxds.transport.resolve import resolve


class Names(trio.abc.HostnameResolver):
    """Answers as getaddrinfo does; a number is an error's."""

    def __init__(self, **known):
        self.known = known

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):
        found = self.known[host.decode()]
        if isinstance(found, int):
            raise socket.gaierror(found, "no such name")
        return [(socket.AF_UNSPEC, type, 0, "", address) for address in found]

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError


async def test_an_address_is_its_own_name():
    assert await resolve("10.0.0.1", 443) == ("10.0.0.1:443",)
    assert await resolve("::1", 443) == ("[::1]:443",)


async def test_a_name_has_its_addresses_in_the_platforms_order_each_once():
    addresses = [("::1", 443, 0, 0), ("10.0.0.1", 443), ("::1", 443, 0, 0)]
    trio.socket.set_custom_hostname_resolver(Names(cart=addresses))
    assert await resolve("cart", 443) == ("[::1]:443", "10.0.0.1:443")


async def test_the_real_network_resolves_this_way():
    trio.socket.set_custom_hostname_resolver(Names(cart=[("10.0.0.1", 443)]))
    assert await TcpNetwork().resolve("cart", 443) == ("10.0.0.1:443",)


async def test_an_unknown_name_is_an_os_error():
    trio.socket.set_custom_hostname_resolver(Names(cart=socket.EAI_NONAME))
    with pytest.raises(OSError, match="no such name"):
        await resolve("cart", 443)


async def test_what_cannot_be_a_name_is_an_os_error_too():
    with pytest.raises(OSError, match="no host name"):
        await resolve("cart..example", 443)
