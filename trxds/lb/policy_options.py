"""The options of a channel that policies read, and no resource or service config sets."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

# A42: the control plane must not decide how much memory a client uses for its rings.
RING_SIZE_CAP = 4096
_CAP_VARIABLE = "GRPC_RING_HASH_CAP"
_MAX_SIZE_CAP = 8 * 1024 * 1024


class PolicyOptions(Struct, frozen=True):
    """`ring_size_cap` bounds the rings of ring_hash; the others are arguments of `open_channel`, one in seconds."""

    ring_size_cap: int = RING_SIZE_CAP
    spread_within: float = 0.0
    sticky_aggregates: bool = False


def read_ring_size_cap(environ: Mapping[str, str]) -> int:
    """Return the client's own limit on the size of a ring (A42), from gRPC-Go's environment variable."""
    text = environ.get(_CAP_VARIABLE, "")
    if not text:
        return RING_SIZE_CAP
    if text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= _MAX_SIZE_CAP:
        return int(text)
    raise ValueError(
        f"the environment variable {_CAP_VARIABLE} is {text!r}; write a whole number from 1 to {_MAX_SIZE_CAP}"
    )
