"""Answers that are valid HTTP/2 and invalid gRPC."""

from __future__ import annotations

import gzip
from functools import partial

from .peer import RESPONSE, Peer, Script, message, script


async def _answer(peer: Peer, *data: bytes, trailers: tuple[tuple[str, str], ...] = (("grpc-status", "0"),)) -> None:
    """Send headers, these bytes and these trailers."""
    stream = await peer.request()
    await peer.headers(stream)
    for part in data:
        await peer.data(stream, part)
    await peer.trailers(stream, trailers)


async def _trailers_only(peer: Peer, *fields: tuple[str, str]) -> None:
    await peer.trailers(await peer.request(), fields)


# -- messages


@script()
async def truncated_message(peer: Peer) -> None:
    await _answer(peer, message(b"half", length=8))


@script()
async def truncated_prefix(peer: Peer) -> None:
    await _answer(peer, message(b"x"), b"\0\0")


@script()
async def end_without_trailers(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    await peer.data(stream, message(b"x"), end=True)


@script()
async def end_in_a_message(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    await peer.data(stream, message(b"half", length=8), end=True)


@script()
async def length_of_4_gib(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    await peer.data(stream, message(b"x", length=2**32 - 1))


@script()
async def compressed_by_nothing(peer: Peer) -> None:
    await _answer(peer, message(b"x", flag=1))


@script()
async def compressed_flag_of_2(peer: Peer) -> None:
    await _answer(peer, message(b"x", flag=2))


# Made before anybody measures.
_HALF = gzip.compress(b"half of this")[:-8]
_BOMB = gzip.compress(bytes(1 << 26))


async def _compressed(peer: Peer, encoding: str, content: bytes) -> None:
    stream = await peer.request()
    await peer.headers(stream, (*RESPONSE, ("grpc-encoding", encoding)))
    for start in range(0, len(whole := message(content, flag=1)), 16_000):
        await peer.data(stream, whole[start : start + 16_000])
    await peer.trailers(stream)


@script()
async def compressed_by_the_unknown(peer: Peer) -> None:
    await _compressed(peer, "snappy", b"x")


@script()
async def gzip_of_no_sense(peer: Peer) -> None:
    await _compressed(peer, "gzip", b"what is this?")


@script()
async def gzip_cut_short(peer: Peer) -> None:
    await _compressed(peer, "gzip", _HALF)


@script()
async def gzip_bomb(peer: Peer) -> None:
    await _compressed(peer, "gzip", _BOMB)


@script()
async def second_message(peer: Peer) -> None:
    await _answer(peer, message(b"x"), message(b"y"))


@script()
async def no_message(peer: Peer) -> None:
    await _answer(peer)


@script()
async def two_bytes_at_a_time(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    await peer.crumbs(stream, message(bytes(range(256)) * 75), 2)
    await peer.trailers(stream)


# -- statuses


@script()
async def trailers_without_status(peer: Peer) -> None:
    await _answer(peer, message(b"x"), trailers=(("cost", "3"),))


@script()
async def status_of_no_number(peer: Peer) -> None:
    await _trailers_only(peer, *RESPONSE, ("grpc-status", "fine"))


@script()
async def status_of_99(peer: Peer) -> None:
    await _trailers_only(peer, *RESPONSE, ("grpc-status", "99"))


@script()
async def status_below_0(peer: Peer) -> None:
    await _trailers_only(peer, *RESPONSE, ("grpc-status", "-1"))


@script()
async def broken_message_and_details(peer: Peer) -> None:
    fields = ("grpc-status", "5"), ("grpc-message", "%zz%ff%"), ("grpc-status-details-bin", "!!!"), ("x-bin", "!!!")
    await _trailers_only(peer, *RESPONSE, *fields)


@script()
async def name_in_capitals(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream, [*RESPONSE, ("X-Case", "1")])
    await peer.data(stream, message(b"x"))
    await peer.trailers(stream)


@script()
async def http_status_twice(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream, [RESPONSE[0], *RESPONSE])
    await peer.data(stream, message(b"x"))
    await peer.trailers(stream)


@script()
async def name_of_nothing(peer: Peer) -> None:
    await _answer(peer, message(b"x"), trailers=(("grpc-status", "0"), ("", "2")))


@script()
async def values_with_line_ends(peer: Peer) -> None:
    await _answer(peer, message(b"x"), trailers=(("grpc-status", "0"), ("x-lines", "3\r\n4"), ("x-null", "\0")))


# -- answers of somebody who is no gRPC server


def _http(status: int) -> Script:
    fields = (":status", str(status)), ("content-type", "text/html")
    return Script(f"http_{status}", partial(_trailers_only_of, fields))


async def _trailers_only_of(fields: tuple[tuple[str, str], ...], peer: Peer) -> None:
    await _trailers_only(peer, *fields)


http_400, http_401, http_403, http_404 = map(_http, (400, 401, 403, 404))
http_429, http_500, http_502, http_503, http_504 = map(_http, (429, 500, 502, 503, 504))


@script()
async def http_200_of_a_web_server(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream, [(":status", "200"), ("content-type", "text/html")])
    await peer.data(stream, b"<html>hello</html>", end=True)


@script()
async def no_http_status(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream, [("content-type", "application/grpc")])


@script(greeting=None)
async def http_1(peer: Peer) -> None:
    await peer.raw(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


@script(greeting=None)
async def garbage(peer: Peer) -> None:
    await peer.raw(bytes(range(255, 0, -1)))
