"""A host with several addresses is connected by Happy Eyeballs (RFC 8305).

Attempts start a short time apart, and the first to connect is used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from trxds.core.happy_eyeballs import ATTEMPT_DELAY, interleave_families

Dial: TypeAlias = Callable[[str], Awaitable[trio.SocketStream]]


async def first_connected(addresses: tuple[str, ...], dial: Dial) -> trio.SocketStream:
    """Return the first connected stream; the `OSError` names each address with its reason."""
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
    """The attempts to connect to one host."""

    def __init__(self, dial: Dial) -> None:
        self.connected: list[trio.SocketStream] = []  # two if both connected in the same scheduler step
        self._dial = dial
        self._failures: dict[str, OSError] = {}

    async def run(self, addresses: tuple[str, ...]) -> None:
        async with trio.open_nursery() as nursery:
            for address in addresses:
                over = trio.Event()
                nursery.start_soon(self._try, address, over, nursery.cancel_scope, name=f"connect {address}")
                # RFC 8305 §5: the next attempt starts after a delay while this one goes on.
                with trio.move_on_after(ATTEMPT_DELAY):
                    await over.wait()

    async def _try(self, address: str, failed: trio.Event, others: trio.CancelScope) -> None:
        try:
            self.connected.append(await self._dial(address))
            others.cancel(reason=f"{address} is connected")
        except OSError as error:
            self._failures[address] = error
            # After a failure the next attempt starts at once, without the rest of the delay.
            failed.set()

    def failure(self) -> OSError:
        """Return the only failure unchanged; several as one with their addresses, and the first one's errno."""
        first = next(iter(self._failures.values()))
        if len(self._failures) == 1:
            return first
        reasons = (f"{address}: {error.strerror or error}" for address, error in self._failures.items())
        return OSError(first.errno, "; ".join(reasons))

    @staticmethod
    def close(streams: list[trio.SocketStream]) -> None:
        """Close the sockets without a checkpoint, because the task may be cancelled."""
        for stream in streams:
            stream.socket.close()
