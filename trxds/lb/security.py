"""A cluster's security says how its hosts are reached: by the resource (A29), with each host's own name (A101)."""

from __future__ import annotations

from trxds.resources.upstream_tls import UpstreamTls

from .endpoint_set import NO_ENDPOINTS, Hostnames

NO_HOSTNAMES = Hostnames(NO_ENDPOINTS)


class Security:
    """The TLS settings of a cluster's hosts.

    A new object makes the subtree connect again; a change of `hostnames` applies to new connections only.
    """

    __slots__ = ("hostnames", "tls")

    def __init__(self, tls: UpstreamTls) -> None:
        self.tls = tls
        # Apart from `tls`, because names come from EDS and change with the endpoints (A101).
        self.hostnames = NO_HOSTNAMES

    def of(self, address: str) -> UpstreamTls:
        return self.tls.for_host(self.hostnames.of(address))
