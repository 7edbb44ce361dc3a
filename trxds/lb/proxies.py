"""The HTTP CONNECT proxies of a cluster's hosts, which the metadata of endpoints and localities name (A86)."""

from __future__ import annotations

from collections.abc import Mapping

from trxds.core.plural import plural

from .endpoint_set import Endpoints


class Proxies:
    """The proxies by the hosts' addresses; `of` is empty for a host that is reached directly.

    As with `Security`, a new object makes the subtree replace its policies. Hosts whose proxy is the same keep their
    connections then.
    """

    __slots__ = ("_by_address",)

    def __init__(self) -> None:
        self._by_address: Mapping[str, str] = {}

    def of(self, address: str) -> str:
        return self._by_address.get(address, "")

    def updated(self, endpoints: Endpoints) -> Proxies:
        """Return the proxies of these endpoints: a new object only if a host that stays has another one."""
        # A86: the endpoint's own goes before its locality's.
        found = {
            address: endpoint.proxy or locality.proxy
            for locality in endpoints.localities
            for endpoint in locality.endpoints
            for address in endpoint.addresses
        }
        before = self._by_address
        # In place otherwise: a host that comes or goes must not disturb the others.
        changed = any(before.get(address, proxy) != proxy for address, proxy in found.items())
        proxies = Proxies() if changed else self
        proxies._by_address = found
        return proxies

    def __str__(self) -> str:
        proxied = [proxy for proxy in self._by_address.values() if proxy]
        if not proxied:
            return ""
        number = len(set(proxied))
        through = f"the proxy {proxied[0]}" if number == 1 else plural(number, "proxy", "proxies")
        return f"{len(proxied)} of {plural(len(self._by_address), 'address', 'addresses')} through {through}"
