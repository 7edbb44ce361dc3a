"""The hash of a request, by which ring_hash chooses its host (A42)."""

from __future__ import annotations

from collections.abc import Iterable

from xxhash import xxh64_intdigest

from trxds.core.metadata import Metadata
from trxds.resources.hash_policy import ChannelIdHash, HashPolicy, HeaderHash
from trxds.resources.matchers import header_value

_MASK = 2**64 - 1


def request_hash(policies: Iterable[HashPolicy], metadata: Metadata, channel_id: int) -> int | None:
    """Return the combined hash of all policies that yield one, in order; None if none does.

    `channel_id` is 64 random bits that a channel keeps for its life.
    """
    combined: int | None = None
    for policy in policies:
        found = _hash(policy, metadata, channel_id)
        if found is not None:
            # A42 leaves the combination open. This is Envoy's, so Envoy and trxds send a request to the same host.
            combined = found if combined is None else _rotate(combined) ^ found
        if policy.terminal and combined is not None:
            break  # even if only an earlier policy yielded a hash (A42)
    return combined


def _rotate(number: int) -> int:
    """Rotate one bit to the left: otherwise two equal values would cancel each other out."""
    return (number << 1 | number >> 63) & _MASK


def _hash(policy: HashPolicy, metadata: Metadata, channel_id: int) -> int | None:
    match policy:
        case ChannelIdHash():
            return channel_id
        case HeaderHash(header, rewrite):
            value = header_value(metadata, header)
            if value is None:
                return None
            return xxh64_intdigest((rewrite.apply(value) if rewrite else value).encode())
