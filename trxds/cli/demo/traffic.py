"""The demo's clients: sessions, and as much traffic without any."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from msgspec import Struct

import trxds

from .mesh import METHOD
from .verdict import Record

SESSIONS = 12
RPCS_EACH = 100  # at least
PACE = 5  # RPCs a second of each client, in a demo that lasts
PATIENCE = 5.0  # seconds for one RPC


class Clock(Struct, frozen=True):
    """The demo's clock, in seconds since the demo began."""

    began: float
    seconds: float

    @property
    def elapsed(self) -> float:
        return trio.current_time() - self.began

    @property
    def rpcs_each(self) -> int:
        return max(RPCS_EACH, round(PACE * self.seconds))

    async def until(self, share: float) -> None:
        """Wait until that share of the demo is over."""
        await trio.sleep_until(self.began + share * self.seconds)


async def run_traffic(channel: trxds.Channel, record: Record, clock: Clock) -> None:
    """Make all RPCs of all clients, spread evenly over the demo's time."""
    record.expected = 2 * SESSIONS * clock.rpcs_each
    async with trio.open_nursery() as nursery:
        for number in range(1, SESSIONS + 1):
            nursery.start_soon(_session, channel, f"session-{number}", record, clock)
            nursery.start_soon(_stranger, channel, f"stranger-{number}", record, clock)


async def _session(channel: trxds.Channel, name: str, record: Record, clock: Clock) -> None:
    async with channel.session() as session:
        add = session.method(METHOD, None, None)
        await _call_on(name, add, record, clock, lambda host: record.met_in_session(name, host, clock.elapsed))


async def _stranger(channel: trxds.Channel, name: str, record: Record, clock: Clock) -> None:
    await _call_on(name, channel.method(METHOD, None, None), record, clock, record.met)


async def _call_on(
    name: str,
    add: Callable[..., Awaitable[bytes]],
    record: Record,
    clock: Clock,
    met: Callable[[str], None],
) -> None:
    for turn in range(clock.rpcs_each):
        await clock.until(turn / clock.rpcs_each)
        try:
            host = await add(b"item", timeout=PATIENCE)
        except trxds.RpcError as error:
            record.failed(name, error)
        else:
            met(host.decode())
