"""Floods of valid frames, which must cost the client no more memory than its bounds allow."""

from __future__ import annotations

from .peer import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    GOAWAY,
    HEADER_TABLE_SIZE,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PING,
    PRIORITY,
    RESPONSE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Peer,
    frame,
    message,
    script,
)

MANY = 4_000
TOO_MANY = 100 * MANY
"""More than anybody gets to send to a client that stops reading in time."""

_AT_ONCE = 500  # frames in one write


async def _flood(peer: Peer, one: bytes, times: int = MANY) -> None:
    for _ in range(times // _AT_ONCE):
        await peer.raw(one * _AT_ONCE)


# -- header blocks


@script()
async def continuation_flood(peer: Peer) -> None:
    stream = await peer.request()
    await peer.frame(HEADERS, 0, stream, peer.block(RESPONSE))
    while True:
        await peer.frame(CONTINUATION, 0, stream, b"\x00\x01x\x7f\x80\x0f" + b"y" * 1000)


@script()
async def continuation_flood_of_large_frames(peer: Peer) -> None:
    stream = await peer.request()
    await peer.frame(HEADERS, 0, stream, peer.block(RESPONSE))
    while True:
        await peer.frame(CONTINUATION, 0, stream, b"\x00\x01x\x7f\xe1\xd3\x03" + b"y" * 60_000)


@script()
async def continuation_flood_of_nothing(peer: Peer) -> None:
    stream = await peer.request()
    await peer.frame(HEADERS, 0, stream, peer.block(RESPONSE))
    await _flood(peer, frame(CONTINUATION, 0, stream))


@script()
async def hpack_bomb(peer: Peer) -> None:
    """Put one field of 4 KB into the table, and name it 16,000 times."""
    bomb = b"\x40\x01x\x7f\x81\x1e" + b"y" * 4000 + b"\xbe" * 16_000
    await peer.frame(HEADERS, 0, await peer.request(), bomb[:16_000])
    await peer.frame(CONTINUATION, END_HEADERS, 1, bomb[16_000:])


@script()
async def metadata_over_the_limit(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream, [*RESPONSE, *((f"x-{n}", "y" * 1000) for n in range(70))])


@script()
async def metadata_far_over_the_limit(peer: Peer) -> None:
    stream = await peer.request()
    block = peer.block([*RESPONSE, *((f"x-{n}", "y" * 100_000) for n in range(7))])
    await peer.frame(HEADERS, 0, stream, block[:16_000])
    for start in range(16_000, len(block), 16_000):
        await peer.frame(
            CONTINUATION, END_HEADERS if start + 16_000 >= len(block) else 0, stream, block[start:][:16_000]
        )


@script()
async def trailers_over_the_limit(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    await peer.data(stream, message(b"x"))
    await peer.trailers(stream, [("grpc-status", "0"), *((f"x-{n}", "y" * 1000) for n in range(70))])


@script()
async def streams_of_the_servers_own(peer: Peer) -> None:
    await peer.request()
    for stream in range(2, 2 * MANY, 2):
        await peer.headers(stream)


@script()
async def informational_flood(peer: Peer) -> None:
    stream = await peer.request()
    await _flood(peer, frame(HEADERS, END_HEADERS, stream, b"\x08\x03103"))
    await peer.answer(stream)


@script(calls=20)
async def compression_table_of_4_gib(peer: Peer) -> None:
    """Let the client's compressor keep a table of 4 GiB."""
    await peer.settings({HEADER_TABLE_SIZE: 2**32 - 1})
    while True:
        await peer.answer(await peer.request())


# -- frames that say nothing


@script()
async def empty_data_flood(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    await _flood(peer, frame(DATA, 0, stream))
    await peer.data(stream, message(b"x"))
    await peer.trailers(stream)


@script()
async def padding_flood(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    await peer.crumbs(stream, message(bytes(MANY)), 1, padding=255)
    await peer.trailers(stream)


@script(reads=False)
async def tiny_message_flood(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    while True:
        await peer.data(stream, message(b"no") * 1000)


@script(reads=False)
async def empty_message_flood(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    while True:
        await peer.data(stream, message(b"") * 2000)


@script()
async def goaway_flood(peer: Peer) -> None:
    """Send the GOAWAY that announces a shutdown, many times, with a page of text each."""
    stream = await peer.request()
    for _ in range(MANY // 10):
        await peer.raw(frame(GOAWAY, 0, 0, (2**31 - 1).to_bytes(4) + bytes(4) + b"y" * 16_000))
    await peer.answer(stream)


@script()
async def unknown_frame_flood(peer: Peer) -> None:
    stream = await peer.request()
    await _flood(peer, frame(0x42, 0, stream, b"?"))
    await peer.answer(stream)


@script()
async def priority_flood(peer: Peer) -> None:
    stream = await peer.request()
    await _flood(peer, frame(PRIORITY, 0, stream, bytes(5)))
    await peer.answer(stream)


@script()
async def reset_flood(peer: Peer) -> None:
    stream = await peer.request()
    await peer.answer(stream)
    await _flood(peer, frame(RST_STREAM, 0, stream, bytes(4)))


@script()
async def window_flood(peer: Peer) -> None:
    stream = await peer.request()
    await _flood(peer, frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"))
    await peer.answer(stream)


# -- frames that want an answer


@script()
async def ping_flood(peer: Peer) -> None:
    stream = await peer.request()
    await _flood(peer, frame(PING, 0, 0, b"01234567"))
    await peer.answer(stream)


@script()
async def ping_flood_of_the_deaf(peer: Peer) -> None:
    await peer.request()
    peer.stop_reading()
    await _flood(peer, frame(PING, 0, 0, b"01234567"), TOO_MANY)


@script()
async def ping_ack_flood(peer: Peer) -> None:
    stream = await peer.request()
    await _flood(peer, frame(PING, ACK, 0, b"01234567"))
    await peer.answer(stream)


@script()
async def settings_flood(peer: Peer) -> None:
    stream = await peer.request()
    await _flood(peer, frame(SETTINGS, 0, 0, INITIAL_WINDOW_SIZE.to_bytes(2) + (65_535).to_bytes(4)))
    await peer.answer(stream)


@script()
async def settings_flood_of_the_deaf(peer: Peer) -> None:
    await peer.request()
    peer.stop_reading()
    await _flood(peer, frame(SETTINGS, 0, 0), TOO_MANY)


@script()
async def settings_that_nobody_knows(peer: Peer) -> None:
    stream = await peer.request()
    for start in range(100, 10_100, 1000):
        await peer.settings((key, 1) for key in range(start, start + 1000))
    await peer.answer(stream)
