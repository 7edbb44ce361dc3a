"""The ring of hashes (A42): each endpoint stands on it as often as its weight demands.

Entry for entry the ring of Envoy and of the C++ client, so that all clients send a key to the same host.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from math import ceil

from xxhash import xxh64_intdigest

SIZE_CAP = 4096  # unless the user says otherwise: rings are many, and the client's memory is not the control plane's
_CAP = "GRPC_RING_HASH_CAP"
_LARGEST = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class Ring:
    """`owners[i]` is the position, in the list it was made from, of the endpoint that has `hashes[i]`."""

    hashes: tuple[int, ...]  # ascending
    owners: tuple[int, ...]

    def owner(self, hashed: int) -> int:
        """Whose entry is the first with that hash or a higher one."""
        return self.owners[bisect_left(self.hashes, hashed) % len(self.owners)]

    def around(self, hashed: int) -> Iterator[int]:
        """The owners from there on, once around; each as often as it stands there."""
        first = bisect_left(self.hashes, hashed)
        return chain(islice(self.owners, first, None), islice(self.owners, first))


def size_cap(environ: Mapping[str, str]) -> int:
    """The client's own limit of a ring's size (A42), by the variable that gRPC for Go has for it."""
    text = environ.get(_CAP, "")
    if not text:
        return SIZE_CAP
    if text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= _LARGEST:
        return int(text)
    raise ValueError(f"the environment variable {_CAP} is {text!r}; write a whole number from 1 to {_LARGEST}")


def build_ring(keys: Sequence[str], weights: Sequence[int], min_size: int, max_size: int, cap: int = SIZE_CAP) -> Ring:
    """A ring for endpoints with these keys; no smaller than it must be for the lightest to have whole entries."""
    if not keys:
        return Ring((), ())
    total = sum(weights)
    shares = [weight / total for weight in weights]
    size = _size(min(shares), min(min_size, cap), min(max_size, cap))
    owners: dict[int, int] = {}
    for owner, due in enumerate(accumulate(size * share for share in shares)):
        number = 0
        while len(owners) < due:  # what is missing for a whole entry falls to the next endpoint
            owners[xxh64_intdigest(f"{keys[owner]}_{number}".encode())] = owner
            number += 1
    hashes = tuple(sorted(owners))
    return Ring(hashes, tuple(owners[hashed] for hashed in hashes))


def _size(smallest_share: float, min_size: int, max_size: int) -> float:
    """At least `min_size`, and so many that the smallest share is a whole number of entries."""
    return min(ceil(smallest_share * min_size) / smallest_share, float(max_size))
