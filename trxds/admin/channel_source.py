"""The protocols by which the admin surface reads channels and xDS clients, and the keys by which it names channels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Set
from typing import Protocol, runtime_checkable

from msgspec import Struct

from trxds.core.calls import Calls
from trxds.core.connectivity import Connectivity
from trxds.core.observers import Observers
from trxds.core.status import Status
from trxds.lb.policy_node import Node
from trxds.resolver.route_explanation import Explanation
from trxds.session_affinity.session import SessionCookies
from trxds.transport.pool import SubchannelPool
from trxds.xds.xds_client import XdsClient


class ChannelView(Protocol):
    """The state of a channel that operators may see."""

    @property
    def target(self) -> str: ...
    @property
    def created_at(self) -> float: ...
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
    def pool(self) -> SubchannelPool: ...
    @property
    def observers(self) -> Observers: ...
    @property
    def sessions(self) -> Set[SessionCookies]: ...


@runtime_checkable
class Source(Protocol):
    """A channel, as `open_channel` returns it."""

    def admin_view(self) -> ChannelView: ...

    async def explain(
        self, method: str, metadata: Iterable[tuple[str, str | bytes]] = (), timeout: float | None = None
    ) -> Explanation: ...


class XdsSource(Protocol):
    """An xDS client that channels share, as `open_xds_client` returns it."""

    def admin_client(self) -> XdsClient: ...


class KeyedChannel(Struct, frozen=True):
    """A channel with the key that it has in every row.

    `is_owner`: the xDS client, which several channels may share, appears under this channel's key.
    """

    key: str
    source: Source
    view: ChannelView
    is_owner: bool


_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:/+")


def channel_sources(sources: Iterable[Source | XdsSource]) -> tuple[KeyedChannel, ...]:
    """Return the channels among the sources in order, each with a key of its own: shop, shop#2, ..."""
    names: Counter[str] = Counter()
    clients: set[int] = set()
    found = []
    for source in sources:
        if not isinstance(source, Source):
            continue
        view = source.admin_view()
        name = _SCHEME.sub("", view.target) or view.target
        names[name] += 1
        key = name if names[name] == 1 else f"{name}#{names[name]}"
        found.append(KeyedChannel(key, source, view, id(view.client) not in clients))
        clients.add(id(view.client))
    return tuple(found)
