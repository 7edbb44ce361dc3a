"""All that there is to see at one moment, as plain rows.

It is taken in slices, for there may be ten thousand endpoints, and RPCs go on in between: a row is true of its
moment, and two rows may be some milliseconds apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import trio

from trxds.ground.clock import Clock
from trxds.ground.numbers import Numbers
from trxds.lb.node_snapshot import NodeSnapshot

from ..channel_source import KeyedChannel
from .connections import begun, connections
from .endpoints import endpoints
from .messages import SECTIONS, ChannelRow, Row, Section, State
from .resources import resources
from .sessions import sessions
from .tree import nodes

T = TypeVar("T")

_NEED_THE_TREE = frozenset({"nodes", "endpoints"})
_A_SLICE = 200  # rows, at 5 to 20 µs each


class Sampler:
    """Numbers and the clock stay the same from one sample to the next, so that what is the same looks the same."""

    def __init__(self, channels: Sequence[KeyedChannel]) -> None:
        self._channels = channels
        self._numbers = Numbers()
        self._clock = Clock.now()

    def epoch(self, at: float) -> float:
        """Seconds since 1970, to the millisecond, of a time on Trio's clock."""
        return round(self._clock.epoch + at, 3)

    async def sample(self, wanted: Collection[str] = SECTIONS, before: State | None = None) -> State:
        """Those sections, and no others. A row that is as it was `before` is the same object."""
        known = before or {}
        state: dict[str, dict[str, Row]] = {name: {} for name in wanted}
        for channel in self._channels:
            root = channel.view.tree if _NEED_THE_TREE.intersection(wanted) else None
            tree = await _slowly(root.survey("root")) if root is not None else []
            for name, rows in self._sections(channel, tree):
                if name in wanted:
                    state[name].update(await _slowly(_kept(rows, known.get(name, {}))))
        await trio.lowlevel.checkpoint()
        return state

    def _sections(
        self, channel: KeyedChannel, tree: Sequence[NodeSnapshot]
    ) -> Iterator[tuple[str, Iterable[tuple[str, Any]]]]:
        key, state, pool = channel.key, channel.view, channel.view.pool
        client = state.client if channel.is_owner else None
        open_ = tuple(state.sessions)
        lines = [(line.kind, line.traffic) for line in client.lines] if client is not None else []
        yield "channels", [(key, _channel(channel))]
        yield "nodes", nodes(key, tree, begun(pool))
        on = [(session.host, session.cluster) for session in open_ if session.host]
        yield "endpoints", endpoints(key, state.target, tree, on)
        yield "connections", connections(key, pool, lines, self._numbers, self.epoch)
        if client is not None:
            yield "resources", resources(key, client, self.epoch)
        yield "sessions", sessions(key, open_, self.epoch)


def _channel(channel: KeyedChannel) -> ChannelRow:
    state, calls = channel.view, channel.view.calls
    return {
        "target": state.target,
        "state": "SHUTDOWN" if state.connectivity is None else state.connectivity.name,
        "calls": calls.started,
        "failed": calls.failed,
        "open": calls.started - calls.succeeded - calls.failed,
        "error": "" if state.problem is None else state.problem.message,
        "warnings": list(state.warnings),
    }


def _kept(rows: Iterable[tuple[str, Row]], known: Section) -> Iterator[tuple[str, Row]]:
    """Ten thousand rows that are as they were are not ten thousand new objects for the garbage collector."""
    for key, row in rows:
        old = known.get(key)
        yield (key, old) if old == row and old is not None else (key, row)


async def _slowly(items: Iterable[T]) -> list[T]:
    """All of them, and others run meanwhile."""
    taken = []
    for item in items:
        taken.append(item)
        if len(taken) % _A_SLICE == 0:
            await trio.lowlevel.checkpoint()
    return taken
