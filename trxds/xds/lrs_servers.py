"""The servers that load is reported to: those that sent a watched cluster with `lrs_server` set (LRS, A27)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from trxds.resources.cluster import Cluster
from trxds.resources.types import CDS

from .bootstrap import ServerConfig
from .resource import Changes, Key


class LrsServers:
    """How many clusters report to each server. `begin` is called for a server's first cluster, `end` after the last."""

    def __init__(self, begin: Callable[[ServerConfig], None], end: Callable[[ServerConfig], None]) -> None:
        self._begin = begin
        self._end = end
        self._clusters: Counter[ServerConfig] = Counter()
        self._servers: dict[str, ServerConfig] = {}  # by the name of the cluster

    def __repr__(self) -> str:
        return f"<LrsServers {', '.join(f'{server.uri}: {number}' for server, number in self._clusters.items())}>"

    def update(self, changes: Changes) -> None:
        """Note which clusters the changes add or remove."""
        for (type, name), state in changes.items():
            if type is CDS:
                self._set_server(name, _lrs_server(state.value))

    def remove(self, key: Key) -> None:
        """Note that a resource is watched no longer."""
        type, name = key
        if type is CDS:
            self._set_server(name, None)

    def _set_server(self, name: str, server: ServerConfig | None) -> None:
        before = self._servers.pop(name, None)
        # First the new server, so that one that stays is never without a cluster.
        if server is not None:
            self._servers[name] = server
            self._clusters[server] += 1
            if self._clusters[server] == 1:
                self._begin(server)
        if before is not None:
            self._clusters[before] -= 1
            if not self._clusters[before]:
                del self._clusters[before]
                self._end(before)


def _lrs_server(value: object | None) -> ServerConfig | None:
    rules = value.lrs if isinstance(value, Cluster) else None
    return rules.server if rules is not None and isinstance(rules.server, ServerConfig) else None
