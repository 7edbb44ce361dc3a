"""Flow control: windows opened too far, overrun, or never opened."""

from __future__ import annotations

from .peer import DATA, INITIAL_WINDOW_SIZE, Peer, message, script

MOST = 2**31 - 1


@script()
async def window_overflow_of_a_stream(peer: Peer) -> None:
    await peer.window(await peer.request(), MOST)


@script()
async def window_overflow_of_the_connection(peer: Peer) -> None:
    await peer.request()
    await peer.window(0, MOST)


@script()
async def window_overflow_by_settings(peer: Peer) -> None:
    await peer.request()
    await peer.settings({INITIAL_WINDOW_SIZE: 2**31})


@script()
async def window_opened_by_nothing(peer: Peer) -> None:
    await peer.request()
    await peer.window(0, 0)


@script(reads=False)
async def more_data_than_the_window(peer: Peer) -> None:
    stream = await peer.request()
    await peer.headers(stream)
    for _ in range(1000):
        await peer.frame(DATA, 0, stream, message(bytes(16_000)))


@script(greeting={INITIAL_WINDOW_SIZE: 0}, request=100_000)
async def window_never_opened(peer: Peer) -> None:
    await peer.request()


@script(greeting={INITIAL_WINDOW_SIZE: 0}, request=2000)
async def window_opened_byte_by_byte(peer: Peer) -> None:
    stream = await peer.request_begun()
    for _ in range(2005):
        await peer.window(stream, 1)
    await peer.until(lambda: peer.received[stream] == 2005)
    await peer.answer(stream)


@script(greeting={INITIAL_WINDOW_SIZE: MOST}, request=3 * 1024 * 1024, calls=10, at_once=True)
async def open_windows_and_no_reading(peer: Peer) -> None:
    await peer.window(0, MOST - 65_535)
    await peer.request_begun()
    peer.stop_reading()


@script(greeting={INITIAL_WINDOW_SIZE: 1000}, request=5000)
async def window_that_shrinks_below_zero(peer: Peer) -> None:
    stream = await peer.request_begun()
    await peer.until(lambda: peer.received[stream] == 1000)
    await peer.settings({INITIAL_WINDOW_SIZE: 0})
    await peer.window(stream, 5005)
    await peer.until(lambda: peer.received[stream] == 5005)
    await peer.answer(stream)
