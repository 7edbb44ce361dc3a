"""Connections through an HTTP CONNECT proxy, which also resolves the names of the hosts behind it (A1)."""

from __future__ import annotations

import base64
import ipaddress
import logging
import re
import socket
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import ClassVar, TypeAlias
from urllib.parse import unquote, urlsplit

import trio
from msgspec import Struct

from trxds.core.arguments import check_type
from trxds.core.authority import join_address
from trxds.core.redacted_struct import RedactedStruct

from .connect import Network, connect_reason, split_address
from .tls import TlsNetwork

_log = logging.getLogger("trxds.transport")

_MAX_HEAD = 16 * 1024  # bytes of a proxy's response
_DEFAULT_PORT = 80
_MAX_REASON = 100  # characters of its answer that an error shows
_HEAD_END = re.compile(rb"\n\r?\n")

# As in the C++ client; the names in capitals are those that curl and Go read too. HTTP_PROXY is not among them: a
# CGI program gets it from the Proxy header of its caller.
_PROXY_VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy", "HTTPS_PROXY")
_BYPASS_VARIABLES = ("no_grpc_proxy", "no_proxy", "NO_PROXY")


_IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class ProxyError(OSError):
    """A proxy that cannot be reached or opens no tunnel. The text names it, and what to do."""


class HttpProxy(RedactedStruct, frozen=True):
    """A proxy: its address as `host:port`, and the value of `proxy-authorization`, empty for none."""

    redacted: ClassVar[frozenset[str]] = frozenset({"authorization"})
    address: str
    authorization: str = ""


FindProxy: TypeAlias = Callable[[str, int], HttpProxy | None]
"""Return the proxy for a host and a port; None for none."""


def parse_proxy(text: str, source: str) -> HttpProxy:
    """Return the proxy of a URL such as `http://user:password@proxy.example:3128`; `source` names it in errors.

    `ValueError` names the source and what is wrong, and never the URL, which may have a password.
    """
    remedy = "write http://HOST:PORT, with USER:PASSWORD@ before the host if the proxy wants them, percent-encoded"
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        host, port = url.hostname or "", url.port or _DEFAULT_PORT
        named = host != "" and not (url.path.strip("/") or url.query or url.fragment)
        host.encode("ascii")
    except ValueError:
        named = False  # the error would show a part of the URL
    if not named:
        raise ValueError(f"{source}: is no URL of a proxy; {remedy}")
    if url.scheme != "http":
        raise ValueError(f"{source}: has another scheme than http, the only one for proxies; {remedy}")
    authorization = ""
    if url.username is not None:
        secret = f"{unquote(url.username)}:{unquote(url.password or '')}"
        authorization = f"Basic {base64.b64encode(secret.encode(errors='surrogateescape')).decode()}"
    return HttpProxy(join_address(host, port), authorization)


def is_bypassed(host: str, port: int, no_proxy: str) -> bool:
    """Return whether a list such as `.corp.example, 10.0.0.0/8, cart:50051` leaves the host out of the proxy.

    A name stands for itself and for the names below it, and with a dot before it for those only. `*` is every host.
    This machine is always left out.
    """
    host = host.lower().rstrip(".")
    address = _address(host)
    if host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback):
        return True
    entries = (entry.strip().lower().rstrip(".") for entry in no_proxy.split(","))
    return any(_matches(entry, host, port, address) for entry in entries if entry)


def _address(text: str) -> _IpAddress | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _matches(entry: str, host: str, port: int, address: _IpAddress | None) -> bool:
    if entry == "*":
        return True
    if address is not None:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            pass  # not a range; it may have a port
    # As in Go: an entry may have a port, and then counts for that one alone.
    name, colon, end = entry.rpartition(":")
    if colon and end.isdecimal():
        if int(end) != port:
            return False
        entry = name.strip("[]")
    if address is not None:
        return address == _address(entry)
    # `*.example.com`, `.example.com` and `example.com` are all in use, for want of a standard.
    entry = entry.removeprefix("*")
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")


class ProxyNetwork:
    """A network that reaches addresses through their proxies, and directly where `proxy_of(address)` is None.

    A connection through a proxy begins with CONNECT, by which the proxy is asked for the address itself.
    """

    def __init__(self, network: Network, proxy_of: Callable[[str], HttpProxy | None]) -> None:
        self._network = network
        self._proxy_of = proxy_of

    async def connect(self, address: str) -> trio.abc.Stream:
        """Return a transport; `OSError` if host or proxy cannot be reached, or the proxy refuses."""
        proxy = self._proxy_of(address)
        return await self._network.connect(address) if proxy is None else await _tunnel(self._network, address, proxy)

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        return await self._network.resolve(host, port)


class TargetProxyNetwork(ProxyNetwork):
    """The network of a target: a name that has a proxy is left to it, which resolves it (A1).

    Addresses that nobody resolved here, as those of a control plane's endpoints, are reached directly.
    """

    def __init__(self, network: Network, find_proxy: FindProxy) -> None:
        self._proxies: dict[str, HttpProxy] = {}  # by the address that `resolve` returned
        super().__init__(network, self._proxies.get)
        self._find_proxy = find_proxy

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        """Return the name itself if it has a proxy. Always a checkpoint."""
        proxy = self._find_proxy(host, port)
        if proxy is None:
            return await super().resolve(host, port)
        await trio.lowlevel.checkpoint()
        address = join_address(host, port)
        # `connect` gets the address alone, which must find its proxy again.
        self._proxies[address] = proxy
        return (address,)


def server_network(network: Network, find_proxy: FindProxy | None) -> Network:
    """Return the network to control planes, whose own addresses may have proxies."""
    if find_proxy is None:
        return network

    def proxy_of(address: str) -> HttpProxy | None:
        return None if address.startswith(("unix:", "unix-abstract:")) else find_proxy(*split_address(address))

    return ProxyNetwork(network, proxy_of)


class Proxied(Struct, frozen=True):
    """The security that a user requires of a connection, and the address of the proxy that it goes through (A86)."""

    security: Hashable
    proxy: str


def proxied(security: Callable[[str], Hashable], proxy: Callable[[str], str], address: str) -> Hashable:
    """Return what is required of a connection to `address`: its security, with its proxy if it has one."""
    name = proxy(address)
    return Proxied(security(address), name) if name else security(address)


def through_proxy(network: Network, address: str) -> Network:
    """Return the network whose connections begin in a tunnel through the proxy at `address`; TLS is inside it (A86)."""
    proxy = HttpProxy(address)
    tunnel = partial(ProxyNetwork, proxy_of=lambda host: proxy)
    # The proxy must not read what is sent, so TLS is spoken with the host, through the tunnel.
    return network.with_transport(tunnel) if isinstance(network, TlsNetwork) else tunnel(network)


async def _tunnel(network: Network, address: str, proxy: HttpProxy) -> trio.abc.Stream:
    try:
        stream = await network.connect(proxy.address)
    except OSError as error:
        # With the proxy's name: the address in the call's error is that of the host.
        raise ProxyError(f"proxy {proxy.address}: {_describe(error)}; check that it runs, and its address") from None
    try:
        await _open_tunnel(stream, address, proxy)
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


async def _open_tunnel(stream: trio.abc.Stream, address: str, proxy: HttpProxy) -> None:
    import h11  # only where there is a proxy: importing it takes 10 ms

    http = h11.Connection(h11.CLIENT)
    try:
        target = address.encode("ascii") if address.isascii() else address.encode("idna")
        headers = [(b"host", target)]
        if proxy.authorization:
            headers.append((b"proxy-authorization", proxy.authorization.encode()))
        request = http.send(h11.Request(method="CONNECT", target=target, headers=headers)) or b""
    except (h11.LocalProtocolError, UnicodeError):
        raise ProxyError(f"proxy {proxy.address} cannot be asked for {address!r}, which is no host name") from None
    http.send(h11.EndOfMessage())
    try:
        await stream.send_all(request)
        response = http.next_event()
        while not isinstance(response, h11.Response):  # 1xx may come before
            http.receive_data(await _receive_head(stream))
            response = http.next_event()
    except (h11.RemoteProtocolError, EOFError, OSError, trio.BrokenResourceError) as error:
        # Without a cause, which `connect_error` would show in place of this text.
        raise ProxyError(
            f"proxy {proxy.address} does not answer CONNECT {address}: {_describe(error)}; is it an HTTP proxy?"
        ) from None
    if response.status_code // 100 != 2:
        # What a proxy says is shown to people, and may be anything, also the password that it was sent.
        said = bytes(response.reason).decode("ascii", "replace")
        token = proxy.authorization.removeprefix("Basic ")
        reason = "" if token and token in said else re.sub(r"[^ -~]", "?", said[:_MAX_REASON])
        answer = f"{response.status_code} {reason}".rstrip()
        remedy = "; put user and password into the proxy's URL" if response.status_code == 407 else ""
        raise ProxyError(f"proxy {proxy.address} answers CONNECT {address} with {answer}{remedy}")


def _describe(error: BaseException) -> str:
    return connect_reason(error) or "it closed the connection"


async def _receive_head(stream: trio.abc.Stream) -> bytes:
    """Receive a response's head and not a byte more: what follows is the host's. `EOFError` at the stream's end."""
    head = b""
    while not _HEAD_END.search(head, max(len(head) - 3, 0)):
        if len(head) > _MAX_HEAD:
            raise EOFError(f"its answer has no end within {_MAX_HEAD} bytes")
        piece = await _receive_piece(stream, head[-2:])
        if not piece:
            raise EOFError
        head += piece
    return head


async def _receive_piece(stream: trio.abc.Stream, before: bytes) -> bytes:
    """Receive bytes up to the end of a head. A socket is looked into first; from other streams one byte is taken."""
    # No other stream can be looked into, and a byte too many would be lost to the host's HTTP/2.
    if not isinstance(stream, trio.SocketStream):
        return bytes(await stream.receive_some(1))
    seen = await stream.socket.recv(_MAX_HEAD, socket.MSG_PEEK)
    end = _HEAD_END.search(before + seen)
    return bytes(await stream.socket.recv(len(seen) if end is None else end.end() - len(before))) if seen else b""


def proxy_finder(setting: str | None, environ: Mapping[str, str]) -> FindProxy | None:
    """Return the function that finds the proxy of a host; None if there is no proxy at all.

    `setting` is a proxy's URL, "" for no proxy, and None for what the environment says. `ValueError` for a bad URL of
    the setting; one of the environment is logged and has no effect.
    """
    if setting is None:
        found = _proxy_of_environment(environ)
        bypass = next((environ[name] for name in _BYPASS_VARIABLES if environ.get(name)), "")
    else:
        check_type("http_proxy", setting, str, "a text such as 'http://proxy.example:3128'")
        found, bypass = parse_proxy(setting, "http_proxy") if setting else None, ""
    if found is None:
        return None
    return lambda host, port: None if is_bypassed(host, port, bypass) else found


def _proxy_of_environment(environ: Mapping[str, str]) -> HttpProxy | None:
    variable = next((name for name in _PROXY_VARIABLES if environ.get(name)), None)
    if variable is None:
        return None
    try:
        return parse_proxy(environ[variable], f"environment variable {variable}")
    except ValueError as error:
        # It may be meant for other programs, as a SOCKS proxy is; this one does not stop for it.
        _log.warning("%s; channels connect without a proxy", error)
        return None
