"""The platform's resolver, replaced by Trio's stand-in where a name would need a network."""

import socket

import pytest
import trio

from trxds.transport.connect import TcpNetwork, resolve


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


async def test_an_ip_address_resolves_to_itself():
    assert await resolve("10.0.0.1", 443) == ("10.0.0.1:443",)
    assert await resolve("::1", 443) == ("[::1]:443",)


async def test_a_host_name_resolves_to_its_addresses_in_order_each_once():
    addresses = [("::1", 443, 0, 0), ("10.0.0.1", 443), ("::1", 443, 0, 0)]
    trio.socket.set_custom_hostname_resolver(Names(cart=addresses))
    assert await resolve("cart", 443) == ("[::1]:443", "10.0.0.1:443")


async def test_a_link_local_address_keeps_its_interface():
    trio.socket.set_custom_hostname_resolver(Names(cart=[("fe80::1", 443, 0, 4)]))
    assert await resolve("cart", 443) == ("[fe80::1%4]:443",)


async def test_the_tcp_network_resolves_host_names():
    trio.socket.set_custom_hostname_resolver(Names(cart=[("10.0.0.1", 443)]))
    assert await TcpNetwork().resolve("cart", 443) == ("10.0.0.1:443",)


async def test_an_unknown_host_name_is_an_os_error():
    trio.socket.set_custom_hostname_resolver(Names(cart=socket.EAI_NONAME))
    with pytest.raises(OSError, match="no such name"):
        await resolve("cart", 443)


async def test_an_invalid_host_name_is_an_os_error():
    with pytest.raises(OSError, match="no host name"):
        await resolve("cart..example", 443)
