"""Frames that no HTTP/2 server may send, or not at that point."""

from __future__ import annotations

from .peer import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    MAX_FRAME_SIZE,
    PADDED,
    PING,
    PUSH_PROMISE,
    RESPONSE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Peer,
    frame,
    message,
    script,
)


@script()
async def data_on_stream_0(peer: Peer) -> None:
    await peer.request()
    await peer.frame(DATA, 0, 0, b"x")


@script()
async def headers_on_stream_0(peer: Peer) -> None:
    await peer.request()
    await peer.headers(0)


@script()
async def data_on_an_idle_stream(peer: Peer) -> None:
    await peer.frame(DATA, 0, await peer.request() + 2, b"x")


@script()
async def headers_on_an_idle_stream(peer: Peer) -> None:
    await peer.headers(await peer.request() + 2)


@script()
async def headers_on_an_even_stream(peer: Peer) -> None:
    await peer.headers(await peer.request() + 1)


@script()
async def window_of_an_idle_stream(peer: Peer) -> None:
    await peer.window(await peer.request() + 2, 1)


@script(calls=2)
async def frames_on_a_closed_stream(peer: Peer) -> None:
    first = await peer.request()
    await peer.answer(first)
    second = await peer.request()
    await peer.window(first, 1)
    await peer.reset(first)
    await peer.answer(second)
    await peer.answer(await peer.request())


@script()
async def data_before_headers(peer: Peer) -> None:
    await peer.data(await peer.request(), message(b"x"))


@script()
async def headers_twice(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    await peer.headers(stream)


@script()
async def ping_inside_of_headers(peer: Peer) -> None:
    stream, block = await peer.request(), peer.block(RESPONSE)
    await peer.raw(frame(HEADERS, 0, stream, block[:1]) + frame(PING, 0, 0, bytes(8)))


@script()
async def continuation_of_nothing(peer: Peer) -> None:
    await peer.frame(CONTINUATION, END_HEADERS, await peer.request(), peer.block(RESPONSE))


@script()
async def push_promise(peer: Peer) -> None:
    stream = await peer.request()
    await peer.frame(PUSH_PROMISE, END_HEADERS, stream, (2).to_bytes(4) + peer.block(RESPONSE))


@script()
async def headers_of_no_sense(peer: Peer) -> None:
    await peer.frame(HEADERS, END_HEADERS | END_STREAM, await peer.request(), b"\xff\xff\xff\xff\xff\xff\xff")


@script()
async def padding_longer_than_its_frame(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    await peer.frame(DATA, PADDED, stream, b"\xff\0\0")


@script()
async def frame_too_large(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    await peer.raw(frame(DATA, 0, stream, bytes(65_537))[:100])


@script()
async def ping_of_7_bytes(peer: Peer) -> None:
    await peer.request()
    await peer.frame(PING, 0, 0, bytes(7))


@script()
async def reset_of_3_bytes(peer: Peer) -> None:
    await peer.frame(RST_STREAM, 0, await peer.request(), bytes(3))


@script()
async def goaway_of_7_bytes(peer: Peer) -> None:
    await peer.request()
    await peer.frame(GOAWAY, 0, 0, bytes(7))


@script()
async def window_of_5_bytes(peer: Peer) -> None:
    await peer.frame(WINDOW_UPDATE, 0, await peer.request(), bytes(5))


@script()
async def settings_of_5_bytes(peer: Peer) -> None:
    await peer.request()
    await peer.frame(SETTINGS, 0, 0, bytes(5))


@script()
async def settings_on_a_stream(peer: Peer) -> None:
    await peer.frame(SETTINGS, 0, await peer.request())


@script()
async def largest_frame_below_16_kib(peer: Peer) -> None:
    await peer.request()
    await peer.settings({MAX_FRAME_SIZE: 16_383})


@script()
async def unknown_frames_and_settings(peer: Peer) -> None:
    stream = await peer.request()
    await peer.settings({0xABCD: 5, 0: 2**32 - 1})
    for kind in (12, 99, 255):
        await peer.frame(kind, 0xFF, stream, b"who knows")
    await peer.answer(stream)
