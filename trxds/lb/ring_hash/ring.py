"""The ring has entries for each endpoint in proportion to its weight (A42).

It is entry for entry the ring of Envoy and of the C++ client, so all clients send a key to the same host.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, islice
from math import ceil

from msgspec import Struct
from xxhash import xxh64_intdigest

from ..policy_options import RING_SIZE_CAP


class Ring(Struct, frozen=True, gc=False, eq=False):
    """A ring; `owners[i]` is the position, in the list of endpoints, of the one that has `hashes[i]`."""

    hashes: tuple[int, ...]  # ascending
    owners: tuple[int, ...]

    def owner(self, hashed: int) -> int:
        """Return the owner of the first entry with this hash or a higher one."""
        return self.owners[bisect_left(self.hashes, hashed) % len(self.owners)]

    def walk(self, hashed: int) -> Iterator[int]:
        """Yield the owners of all entries, from the hash on, once around."""
        first = bisect_left(self.hashes, hashed)
        return chain(islice(self.owners, first, None), islice(self.owners, first))


def build_ring(
    keys: Sequence[str], weights: Sequence[int], min_size: int, max_size: int, cap: int = RING_SIZE_CAP
) -> Ring:
    """Build the ring; the lightest endpoint has a whole number of entries if the limits allow it (A42)."""
    if not keys:
        return Ring((), ())
    total = sum(weights)
    shares = [weight / total for weight in weights]
    size = _size(min(shares), min(min_size, cap), min(max_size, cap))
    hashes: list[int] = []
    owners: list[int] = []
    for owner, due in enumerate(accumulate(size * share for share in shares)):
        number = 0
        while len(owners) < due:  # a fraction of an entry is carried over to the next endpoint
            hashes.append(xxh64_intdigest(f"{keys[owner]}_{number}".encode()))
            owners.append(owner)
            number += 1
    # Endpoints with one key (A76) have equal hashes, and each of them keeps its own: where the first is down, RPCs walk
    # on to the next.
    order = sorted(range(len(hashes)), key=hashes.__getitem__)
    return Ring(tuple(hashes[at] for at in order), tuple(owners[at] for at in order))


def _size(smallest_share: float, min_size: int, max_size: int) -> float:
    """Return the number of entries: at least `min_size`, and a whole number for the smallest share."""
    return min(ceil(smallest_share * min_size) / smallest_share, float(max_size))
