"""How a cluster's hosts are to be reached: what its resource says (A29), for each host by its own name (A101)."""

from __future__ import annotations

from collections.abc import Mapping

from trxds.resources.upstream_tls import UpstreamTls


class Security:
    """Another object means that all connections begin anew; other `hostnames` count for new ones only."""

    __slots__ = ("hostnames", "tls")

    def __init__(self, tls: UpstreamTls) -> None:
        self.tls = tls
        self.hostnames: Mapping[str, str] = {}

    def of(self, address: str) -> UpstreamTls:
        return self.tls.for_host(self.hostnames.get(address, ""))
