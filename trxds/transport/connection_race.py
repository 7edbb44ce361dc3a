"""A connection to a host by any of its addresses: tried a little apart, and the first that answers is it (RFC 8305)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from trxds.core.happy_eyeballs import ATTEMPT_DELAY, interleave_families

Dial: TypeAlias = Callable[[str], Awaitable[trio.SocketStream]]


async def first_connected(addresses: tuple[str, ...], dial: Dial) -> trio.SocketStream:
    """`OSError` says of each address why not."""
    race = _Race(dial)
    try:
        await race.run(interleave_families(addresses))
    except BaseException:
        race.close(race.connected)
        raise
    if not race.connected:
        raise race.failure()
    race.close(race.connected[1:])
    return race.connected[0]


class _Race:
    def __init__(self, dial: Dial) -> None:
        self.connected: list[trio.SocketStream] = []  # two of them if both did in the same moment
        self._dial = dial
        self._failures: dict[str, OSError] = {}

    async def run(self, addresses: tuple[str, ...]) -> None:
        async with trio.open_nursery() as nursery:
            for address in addresses:
                over = trio.Event()
                nursery.start_soon(self._try, address, over, nursery.cancel_scope, name=f"connect {address}")
                with trio.move_on_after(ATTEMPT_DELAY):
                    await over.wait()

    async def _try(self, address: str, over: trio.Event, others: trio.CancelScope) -> None:
        try:
            self.connected.append(await self._dial(address))
            others.cancel(reason=f"{address} is connected")
        except OSError as error:
            self._failures[address] = error
            over.set()

    def failure(self) -> OSError:
        """The only one as it is; several with their addresses, and as one like the first."""
        first = next(iter(self._failures.values()))
        if len(self._failures) == 1:
            return first
        reasons = (f"{address}: {error.strerror or error}" for address, error in self._failures.items())
        return OSError(first.errno, "; ".join(reasons))

    @staticmethod
    def close(streams: list[trio.SocketStream]) -> None:
        """Plain, for who is cancelled."""
        for stream in streams:
            stream.socket.close()
