"""The negative cases of gRPC's http2-interop-test-descriptions.md."""

from __future__ import annotations

from .peer import MAX_CONCURRENT_STREAMS, Peer, message, script

LARGE = 50_000  # the original has six times that


@script(calls=2)
async def goaway(peer: Peer) -> None:
    stream = await peer.request()
    await peer.goaway(stream)
    await peer.answer(stream)


@script()
async def rst_after_header(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    await peer.reset(stream)


@script()
async def rst_during_data(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    await peer.data(stream, message(bytes(500), length=1000))
    await peer.reset(stream)


@script()
async def rst_after_data(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    await peer.data(stream, message(bytes(1000)))
    await peer.reset(stream)


@script()
async def ping(peer: Peer) -> None:
    await peer.ping()
    stream = await peer.request()
    await peer.ping()
    await peer.headers(stream)
    await peer.ping()
    await peer.data(stream, message(b"x"))
    await peer.ping()
    await peer.until(lambda: not peer.unanswered_pings)
    await peer.trailers(stream)


@script(greeting={MAX_CONCURRENT_STREAMS: 1}, calls=15, at_once=True)
async def max_streams(peer: Peer) -> None:
    for _ in range(15):
        stream = await peer.request()
        assert peer.most_open == 1
        await peer.answer(stream)


@script()
async def data_frame_padding(peer: Peer) -> None:
    await large_answer(peer, padding=255)


@script()
async def no_df_padding_sanity_test(peer: Peer) -> None:
    await large_answer(peer, padding=None)


async def large_answer(peer: Peer, padding: int | None) -> None:
    """Send a large answer in frames of five bytes."""
    stream = await peer.request()
    await peer.headers(stream)
    await peer.crumbs(stream, message(bytes(LARGE)), 5, padding)
    await peer.trailers(stream)
