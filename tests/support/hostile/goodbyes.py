"""GOAWAY in all its races, resets, and servers that fall silent."""

from __future__ import annotations

from .peer import ENHANCE_YOUR_CALM, MAX_CONCURRENT_STREAMS, REFUSED_STREAM, Peer, script


@script(calls=2, at_once=True)
async def goaway_below_ours(peer: Peer) -> None:
    first, second = await peer.request(), (await peer.request() if peer.number == 1 else None)
    if second is not None:
        await peer.goaway(first)
    await peer.answer(first)


@script()
async def goaway_before_any(peer: Peer) -> None:
    stream = await peer.request()
    if peer.number == 1:
        await peer.goaway(0)
    else:
        await peer.answer(stream)


@script()
async def goaway_in_two_steps(peer: Peer) -> None:
    stream = await peer.request()
    await peer.goaway(2**31 - 1)
    await peer.ping()
    await peer.until(lambda: not peer.unanswered_pings)
    await peer.goaway(stream)
    await peer.answer(stream)


@script()
async def goaway_that_takes_back(peer: Peer) -> None:
    stream = await peer.request()
    if peer.number == 1:
        await peer.goaway(stream)
        await peer.goaway(0)
    else:
        await peer.answer(stream)


@script()
async def goaway_that_rises(peer: Peer) -> None:
    stream = await peer.request()
    if peer.number == 1:
        await peer.goaway(0)
        await peer.goaway(stream)
    await peer.answer(stream)


@script()
async def goaway_then_silence(peer: Peer) -> None:
    await peer.goaway(await peer.request())


@script()
async def goaway_with_an_error(peer: Peer) -> None:
    await peer.request()
    await peer.goaway(0, ENHANCE_YOUR_CALM, b"too_many_pings")


@script()
async def goaway_first_of_all(peer: Peer) -> None:
    if peer.number == 1:
        await peer.goaway(0)
    else:
        await peer.answer(await peer.request())


@script()
async def goaway_and_end(peer: Peer) -> None:
    await peer.goaway(await peer.request())
    await peer.close()


@script()
async def end_of_connection(peer: Peer) -> None:
    await peer.request()
    await peer.close()


@script(calls=100)
async def rapid_reset(peer: Peer) -> None:
    while True:
        await peer.reset(await peer.request(), REFUSED_STREAM)


@script(greeting={MAX_CONCURRENT_STREAMS: 0}, calls=3, at_once=True)
async def no_streams_allowed(peer: Peer) -> None:
    await peer.request()


@script(greeting=None)
async def settings_never_sent(peer: Peer) -> None:
    await peer.request()


@script()
async def silence(peer: Peer) -> None:
    await peer.request()
