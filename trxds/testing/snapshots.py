"""`Snapshots` serves state of the world like go-control-plane's snapshot cache (server/sotw, cache/v3/simple.go).

This is the cache's mode without ADS ordering. Unlike `StateOfTheWorld` it has one version for all types, and a response
has all requested resources, or all resources if the request names none. It sends nothing more of a type before the last
response has been ACKed or NACKed, ignores a request with another nonce, and assumes that the client has each resource
that an ACK names. It answers a request without the present version at once, and a NACK is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trxds.resources import protos

from .subscriptions import TYPE_URLS, Entry, Sending, sotw_response


@dataclass(slots=True, eq=False)
class _Subscription:
    names: frozenset[str] = frozenset()
    wildcard: bool = True  # until a request names anything
    version: str = ""
    nonce: str = ""
    known: frozenset[str] = frozenset()
    unanswered: bool = False  # a request has not been answered


@dataclass(slots=True, eq=False)
class Snapshots:
    """The subscriptions of one stream, served from snapshots."""

    request = protos.DiscoveryRequest

    subscriptions: dict[str, _Subscription] = field(default_factory=dict)

    def handle_request(self, kind: str, message: Any) -> tuple[str, ...]:
        names = tuple(message.resource_names)
        if kind not in TYPE_URLS:
            return names
        subscription = self.subscriptions.setdefault(kind, _Subscription())
        if subscription.nonce and message.response_nonce != subscription.nonce:
            return names
        subscription.names, subscription.version, subscription.unanswered = frozenset(names), message.version_info, True
        subscription.wildcard = subscription.wildcard and not names
        if not subscription.wildcard:
            subscription.known &= subscription.names
        return names

    def next_response(self, kind: str, entries: Mapping[str, Entry], version: int, nonce: str) -> Sending | None:
        subscription = self.subscriptions.get(kind)
        if subscription is None or not subscription.unanswered or not version:
            return None
        wanted = entries.keys() if subscription.wildcard else entries.keys() & subscription.names
        if subscription.version == str(version) and wanted <= subscription.known:
            return None
        names = subscription.names
        response = {name: entry for name, entry in entries.items() if not names or name in names}
        subscription.known, subscription.nonce, subscription.unanswered = frozenset(response), nonce, False
        return sotw_response(kind, response, version, nonce)
