"""This file has the order and the delay of connection attempts to the addresses of one host (RFC 8305, A61)."""

from __future__ import annotations

from itertools import chain, zip_longest

ATTEMPT_DELAY = 0.25  # seconds before the next address is tried too (RFC 8305, 5)


def interleave_families(addresses: tuple[str, ...]) -> tuple[str, ...]:
    """Return the addresses with alternating families, so that a broken family costs one delay (RFC 8305, 4)."""
    if len(addresses) <= 2:
        return addresses
    # The first address stays the first (RFC 8305, 4; A61), because the order of the list is a preference.
    first = _is_ipv6(addresses[0])
    families = ([a for a in addresses if _is_ipv6(a) is first], [a for a in addresses if _is_ipv6(a) is not first])
    return tuple(address for address in chain.from_iterable(zip_longest(*families)) if address is not None)


def _is_ipv6(address: str) -> bool:
    return address.startswith("[")
