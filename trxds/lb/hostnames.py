"""The host names of a cluster's endpoints, which EDS and DNS set: for `:authority` (A81) and for SNI (A101)."""

from __future__ import annotations

from .endpoint_set import Endpoints


class Hostnames:
    """The names by the endpoints' addresses, of which one endpoint may have several (A61)."""

    __slots__ = ("_by_address", "_endpoints")

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._by_address: dict[str, str] | None = None

    def of(self, address: str) -> str:
        """Return the host name of the endpoint that has this address; empty if it has none."""
        # Made at the first look-up: few routes need the names, and there may be ten thousand.
        if self._by_address is None:
            self._by_address = {each: one.hostname for one in self._endpoints for each in one.addresses if one.hostname}
        return self._by_address.get(address, "")

    def is_made_from(self, endpoints: Endpoints) -> bool:
        """Return whether these are the names of those endpoints."""
        return endpoints is self._endpoints
