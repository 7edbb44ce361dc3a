"""Calls through an HTTP CONNECT proxy, over sockets."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trustme

import trxds
from trxds import RpcError
from trxds.testing import Call, serve, unary
from trxds.transport.connect import split_address

ANSWER = b"HTTP/1.1 200 Connection established\r\nvia: 1.1 test\r\n\r\n"


class Proxy:
    """Answers each CONNECT, in pieces of so many bytes, and leads it to the one host."""

    def __init__(self, host: str, size: int, answer: bytes = ANSWER) -> None:
        self.asked: list[bytes] = []
        self.address = ""
        self._host, self._size, self._answer = host, size, answer

    async def handle(self, client: trio.SocketStream) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += await client.receive_some()
        self.asked.append(head.partition(b"\r\n")[0])
        for start in range(0, len(self._answer), self._size):
            await client.send_all(self._answer[start : start + self._size])
            await trio.lowlevel.checkpoint()
        host, port = split_address(self._host)
        async with await trio.open_tcp_stream(host, port) as server, trio.open_nursery() as nursery:
            nursery.start_soon(self._pump, client, server)
            await self._pump(server, client)
            nursery.cancel_scope.cancel()

    async def _pump(self, source: trio.SocketStream, sink: trio.SocketStream) -> None:
        try:
            async for data in source:
                await sink.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


@asynccontextmanager
async def through_a_proxy(
    size: int = 1000, answer: bytes = ANSWER, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Proxy]:
    async def echo(request: bytes, call: Call) -> bytes:
        return request

    async with serve({"/s/Echo": unary(echo)}, tls=tls) as server, trio.open_nursery() as nursery:
        proxy = Proxy(server.address, size, answer)
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        proxy.address = f"127.0.0.1:{listener.socket.getsockname()[1]}"
        nursery.start_soon(trio.serve_listeners, proxy.handle, [listener])
        yield proxy
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
async def test_an_answer_in_pieces_opens_the_tunnel(size: int) -> None:
    async with through_a_proxy(size) as proxy:
        async with trxds.open_channel("dns:///shop.example:50051", http_proxy=f"http://{proxy.address}") as channel:
            assert await channel.method("/s/Echo")(b"x", timeout=10) == b"x"
        assert proxy.asked == [b"CONNECT shop.example:50051 HTTP/1.1"]


async def test_tls_goes_through_the_tunnel_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["h2"])
    authority.issue_cert("shop.example").configure_cert(context)
    async with through_a_proxy(tls=context) as proxy:
        monkeypatch.setenv("https_proxy", f"http://{proxy.address}")
        credentials = trxds.tls(roots=authority.cert_pem.bytes())
        async with trxds.open_channel("shop.example", credentials=credentials) as channel:
            assert await channel.method("/s/Echo")(b"x", timeout=10) == b"x"
        assert proxy.asked == [b"CONNECT shop.example:443 HTTP/1.1"]


async def test_a_call_names_the_proxy_that_refuses() -> None:
    async with (
        through_a_proxy(answer=b"HTTP/1.1 403 Forbidden\r\n\r\n") as proxy,
        trxds.open_channel("dns:///shop.example:50051", http_proxy=f"http://{proxy.address}") as channel,
    ):
        with pytest.raises(RpcError, match=f"proxy {proxy.address} answers CONNECT shop.example:50051 with 403"):
            await channel.method("/s/Echo")(b"x", timeout=10)


async def test_a_call_names_the_proxy_that_is_none() -> None:
    async with (
        through_a_proxy(answer=b"SSH-2.0-OpenSSH_9.7\r\n\r\n") as proxy,
        trxds.open_channel("dns:///shop.example:50051", http_proxy=f"http://{proxy.address}") as channel,
    ):
        with pytest.raises(RpcError, match=f"proxy {proxy.address} does not answer CONNECT .*; is it an HTTP proxy"):
            await channel.method("/s/Echo")(b"x", timeout=10)


async def test_an_address_of_this_machine_needs_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with through_a_proxy() as proxy, serve({"/s/Echo": unary(lambda request, call: _same(request))}) as server:
        monkeypatch.setenv("https_proxy", f"http://{proxy.address}")
        async with trxds.open_channel(f"dns:///{server.address}") as channel:
            assert await channel.method("/s/Echo")(b"x", timeout=10) == b"x"
        assert proxy.asked == []


async def _same(request: bytes) -> bytes:
    return request


async def test_a_bad_url_of_the_channel_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="http_proxy: has another scheme than http"):
        async with trxds.open_channel("dns:///shop.example", http_proxy="https://ada:secret@proxy.example"):
            pass
