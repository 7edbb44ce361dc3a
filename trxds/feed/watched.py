"""What the feed looks at: one channel, by what its rooms say of themselves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Protocol

from trxds.ads.client import XdsClient
from trxds.affinity.session import SessionCookies
from trxds.ground.calls import Calls
from trxds.ground.connectivity import Connectivity
from trxds.ground.observers import Observers
from trxds.ground.status import Status
from trxds.lb.node import Node
from trxds.wire.pool import Pool


class ChannelState(Protocol):
    """Of a channel, what it shares with its calls."""

    @property
    def target(self) -> str: ...
    @property
    def connectivity(self) -> Connectivity | None: ...
    @property
    def problem(self) -> Status | None: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...
    @property
    def calls(self) -> Calls: ...
    @property
    def tree(self) -> Node | None: ...
    @property
    def client(self) -> XdsClient | None: ...
    @property
    def observers(self) -> Observers: ...
    @property
    def sessions(self) -> Set[SessionCookies]: ...


class Source(Protocol):
    """A channel, as `open_channel` gives it."""

    @property
    def _state(self) -> ChannelState: ...
    @property
    def _pool(self) -> Pool: ...


@dataclass(frozen=True, slots=True)
class Watched:
    """`key` names the channel in every row; `owner` is who tells of the xDS client, which several may share."""

    key: str
    state: ChannelState
    pool: Pool
    owner: bool


_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:/+")


def watched(sources: Iterable[Source]) -> tuple[Watched, ...]:
    """In order, each with a key of its own."""
    names: Counter[str] = Counter()
    told: set[int] = set()
    found = []
    for source in sources:
        state = source._state
        name = _SCHEME.sub("", state.target) or state.target
        names[name] += 1
        key = name if names[name] == 1 else f"{name}#{names[name]}"
        found.append(Watched(key, state, source._pool, id(state.client) not in told))
        told.add(id(state.client))
    return tuple(found)
