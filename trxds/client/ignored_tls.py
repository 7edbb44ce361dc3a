"""Clusters that ask for TLS on a channel whose own credentials count, and not the control plane's (A29).

The hosts of such a cluster often speak nothing but TLS, and then their connections end without a reason. Worse, if they
do speak plain text, the calls leave unencrypted although the control plane asks for encryption.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from trxds.core.status import Status
from trxds.resolver.snapshot import AggregateConfig, ClusterConfig, ClusterEntry
from trxds.transport.transport_credentials import Insecure

from .credentials import ChannelCredentials, XdsCredentials

_log = logging.getLogger("trxds.client")


class IgnoredTls:
    """The clusters of one channel whose TLS settings its credentials leave out; each is logged when it is new."""

    def __init__(self, target: str, credentials: ChannelCredentials) -> None:
        self.warnings: tuple[str, ...] = ()
        """The clusters that the channel reaches in plain text although they ask for TLS."""
        self._target = target
        self._credentials = credentials
        self._known: frozenset[str] = frozenset()
        self._notes: Mapping[str, str] = {}  # by the cluster that routes name

    def update(self, entries: Mapping[str, ClusterEntry]) -> None:
        """Take the clusters of a configuration, and log those that newly ask for TLS in vain."""
        if isinstance(self._credentials, XdsCredentials):
            return
        # A plain loop: there may be ten thousand clusters, and this is one step for all other tasks.
        asking: dict[str, tuple[ClusterConfig, ...]] = {}
        for name, entry in entries.items():
            cluster = entry.cluster
            if isinstance(cluster, ClusterConfig):
                if cluster.cluster.tls is not None:
                    asking[name] = (cluster,)
            elif isinstance(cluster, AggregateConfig):
                leaves = tuple(leaf for leaf in cluster.leaves if leaf.cluster.tls is not None)
                if leaves:
                    asking[name] = leaves
        self._note(asking)

    def _note(self, asking: Mapping[str, tuple[ClusterConfig, ...]]) -> None:
        is_plain = isinstance(self._credentials, Insecure)
        texts = {each.cluster.name: self._describe(each, is_plain) for found in asking.values() for each in found}
        for name in sorted(texts.keys() - self._known):
            # TLS of the channel's own is a choice of the program's; plain text may be one that nobody made.
            _log.log(logging.WARNING if is_plain else logging.INFO, "%s: %s", self._target, texts[name])
        self._known = frozenset(texts)
        if is_plain:
            self.warnings = tuple(texts[name] for name in sorted(texts))
            self._notes = {name: texts[found[0].cluster.name] for name, found in asking.items()}

    def with_note(self, status: Status, cluster: str) -> Status:
        """Return the status of a call that found no host in `cluster`, with a note if the hosts may want TLS."""
        note = self._notes.get(cluster)
        return status if note is None or status.note else replace(status, note=note)

    def _describe(self, asking: ClusterConfig, is_plain: bool) -> str:
        who = asking.cluster_standing or f'cluster "{asking.cluster.name}"'
        if is_plain:
            effect = "plain text, for the channel's credentials are trxds.insecure()"
            remedy = "open the channel with credentials=trxds.xds_credentials(trxds.insecure())"
            return f"{who}: it asks for TLS, and its hosts are reached in {effect}; {remedy}"
        effect = "those of the channel's trxds.tls(...) apply; trxds.xds_credentials(...) would follow the cluster"
        return f"{who}: its TLS settings are left out, and {effect}"

    def __repr__(self) -> str:
        return f"<IgnoredTls {self._target}: {', '.join(sorted(self._known)) or 'none'}>"
