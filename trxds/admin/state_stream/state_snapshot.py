"""A snapshot of the channels' state, as plain rows.

It is taken in slices, because there may be ten thousand endpoints, and RPCs go on in between. So two rows may be some
milliseconds apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import trio

from trxds.core.clock import Clock
from trxds.core.id_allocator import IdAllocator
from trxds.lb.policy_node_snapshot import NodeSnapshot

from ..channel_source import KeyedChannel
from .connections import begun, connections
from .control_planes import control_planes
from .endpoints import endpoints
from .messages import SECTIONS, ChannelRow, Row, Section, State
from .resources import resources
from .sessions import sessions
from .tree import nodes

T = TypeVar("T")

_NEED_THE_TREE = frozenset({"nodes", "endpoints"})
_SLICE_SIZE = 200  # rows, at 5 to 20 µs each


class Sampler:
    """Takes snapshots.

    Ids and the clock's offset stay the same, so that a row without news is equal in the next snapshot.
    """

    def __init__(self, channels: Sequence[KeyedChannel]) -> None:
        self._channels = channels
        self._owners = {id(each.view.client): each.key for each in channels if each.is_owner}
        self._numbers = IdAllocator()
        self._clock = Clock.now()

    def epoch(self, at: float) -> float:
        """Return seconds since 1970, to the millisecond, for a time on Trio's clock."""
        return round(self._clock.epoch + at, 3)

    async def sample(self, wanted: Collection[str] = SECTIONS, before: State | None = None) -> State:
        """Take a snapshot of these sections. A row that is equal to its row in `before` is the same object."""
        known = before or {}
        state: dict[str, dict[str, Row]] = {name: {} for name in wanted}
        for channel in self._channels:
            root = channel.view.tree if _NEED_THE_TREE.intersection(wanted) else None
            tree = await _slowly(root.snapshot(root.path)) if root is not None else []
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
        xds_channels = tuple(client.xds_channels) if client is not None else ()
        lines = [(line.kind, line.traffic) for line in xds_channels]
        yield "channels", [(key, _channel(channel, self._owners))]
        yield "nodes", nodes(key, tree, begun(pool))
        on = [(session.host, session.cluster) for session in open_ if session.host]
        yield "endpoints", endpoints(key, state.target, tree, on)
        yield "connections", connections(key, pool, lines, self._numbers, self.epoch)
        if client is not None:
            yield "resources", resources(key, client, self.epoch)
        yield "sessions", sessions(key, open_, self.epoch)
        yield "control_planes", control_planes(key, xds_channels, self.epoch)


def _channel(channel: KeyedChannel, owners: Mapping[int, str]) -> ChannelRow:
    state, calls = channel.view, channel.view.calls
    return {
        "target": state.target,
        "state": "SHUTDOWN" if state.connectivity is None else state.connectivity.name,
        "calls": calls.started,
        "failed": calls.failed,
        "open": calls.started - calls.succeeded - calls.failed,
        "error": "" if state.problem is None else state.problem.message,
        "warnings": list(state.warnings),
        "client": "" if state.client is None else owners[id(state.client)],
        "outages": [] if state.client is None else list(state.client.outages),
    }


def _kept(rows: Iterable[tuple[str, Row]], known: Section) -> Iterator[tuple[str, Row]]:
    """Keep the old objects of equal rows: ten thousand new ones each time would burden the garbage collector."""
    for key, row in rows:
        old = known.get(key)
        yield (key, old) if old == row and old is not None else (key, row)


async def _slowly(items: Iterable[T]) -> list[T]:
    """Return the items as a list, and let other tasks run in between."""
    taken = []
    for item in items:
        taken.append(item)
        if len(taken) % _SLICE_SIZE == 0:
            await trio.lowlevel.checkpoint()
    return taken
