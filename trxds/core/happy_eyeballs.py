"""In which order and at what pace the addresses of one host are tried (RFC 8305)."""

from __future__ import annotations

from itertools import chain, zip_longest

ATTEMPT_DELAY = 0.25  # seconds that an address is tried alone before the next one is tried too (RFC 8305, 5)


def interleaved(addresses: tuple[str, ...]) -> tuple[str, ...]:
    """The two address families by turns, so that one that does not work costs one delay (RFC 8305, 4)."""
    if len(addresses) <= 2:
        return addresses
    # The first address stays the first (RFC 8305, 4; A61): whoever made the list meant something by it.
    first = _is_ipv6(addresses[0])
    families = ([a for a in addresses if _is_ipv6(a) is first], [a for a in addresses if _is_ipv6(a) is not first])
    return tuple(address for address in chain.from_iterable(zip_longest(*families)) if address is not None)


def _is_ipv6(address: str) -> bool:
    return address.startswith("[")
