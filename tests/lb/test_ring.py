"""The ring has entries for each endpoint by weight (A42)."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from trxds.lb.policy_options import RING_SIZE_CAP, read_ring_size_cap
from trxds.lb.ring_hash.ring import build_ring

KEYS = ("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80")


def ring(weights, min_size=1024, max_size=8 * 1024 * 1024):
    return build_ring(KEYS[: len(weights)], weights, min_size, max_size)


@pytest.mark.parametrize(
    ("weights", "min_size", "entries"),
    [
        ((1, 1, 1, 1), 1024, [256, 256, 256, 256]),
        ((3, 1), 1024, [768, 256]),
        ((1, 1, 1), 1024, [342, 342, 342]),  # the smallest has whole entries, so the ring is larger than 1024
        ((7, 2), 10, [11, 3]),
    ],
)
def test_a_ring_has_entries_by_weight(weights, min_size, entries):
    counted = Counter(ring(weights, min_size).owners)
    assert [counted[owner] for owner in range(len(weights))] == pytest.approx(entries, abs=1)


@pytest.mark.parametrize(("min_size", "max_size", "size"), [(8, 8, 8), (1, 8, 4), (100_000, 8_000_000, RING_SIZE_CAP)])
def test_a_rings_size_is_between_its_limits_and_below_the_clients_cap(min_size, max_size, size):
    assert len(ring((1, 1, 1, 1), min_size, max_size).owners) == size


def test_a_ring_is_no_larger_than_its_maximum_even_if_the_lightest_endpoint_has_a_part_of_an_entry():
    assert len(ring((1, 1000), 8, 16).owners) == 16


def test_the_entries_of_an_endpoint_are_hashed_with_numbers_from_0():
    # As in Envoy and the C++ client: all clients send a key to the same host.
    made = build_ring(("a",), (1,), 3, 3)
    assert set(made.hashes) == {xxh64_intdigest(f"a_{number}".encode()) for number in range(3)}


def test_a_ring_has_the_same_entries_as_in_envoy():
    """The entries that Envoy makes of these hosts, so a key goes to one host from proxies and from clients."""
    made = build_ring(("127.0.0.1:90", "127.0.0.1:91", "127.0.0.1:92"), (1, 2, 3), 6, 6)
    assert list(zip(made.hashes, made.owners, strict=True)) == [
        (928266305478181108, 2),
        (4443673547860492590, 2),
        (5583722120771150861, 1),
        (6311230543546372928, 1),
        (13444792449719432967, 2),
        (16117243373044804889, 0),
    ]


@pytest.mark.parametrize(("cap", "size"), [(1, 1), (100, 100), (8192, 8192), (1_000_000, 10_000)])
def test_the_clients_cap_on_ring_sizes_is_configurable(cap, size):
    assert len(build_ring(KEYS, (1, 1, 1, 1), 10_000, 8_000_000, cap).owners) == size


@pytest.mark.parametrize(("text", "cap"), [(None, 4096), ("", 4096), ("1", 1), ("10000", 10_000), ("8388608", 8388608)])
def test_an_environment_variable_sets_the_ring_size_cap(text, cap):
    assert read_ring_size_cap({} if text is None else {"GRPC_RING_HASH_CAP": text}) == cap


@pytest.mark.parametrize("text", ["0", "-1", "8388609", "9" * 5000, "many", "1e3", "\u0661"])
def test_an_invalid_ring_size_cap_is_refused_with_the_remedy(text):
    with pytest.raises(ValueError, match=r"GRPC_RING_HASH_CAP is .*; write a whole number from 1 to 8388608"):
        read_ring_size_cap({"GRPC_RING_HASH_CAP": text})


def test_more_endpoints_than_entries_share_the_ring():
    keys = [f"10.0.{n // 250}.{n % 250}:80" for n in range(10_000)]
    assert len(build_ring(keys, [1] * 10_000, 1024, 8_000_000).owners) == RING_SIZE_CAP


def test_a_ring_entry_is_the_hash_of_the_key_and_a_number():
    whole = ring((1, 1))
    assert whole.owners[whole.hashes.index(xxh64_intdigest(b"10.0.0.2:80_7"))] == 1


def test_a_hash_belongs_to_the_next_entry_and_the_last_ones_to_the_first():
    whole = ring((1, 1, 1, 1), 4, 4)
    for low, high in pairwise(whole.hashes):
        assert whole.owner(low + 1) == whole.owner(high) == whole.owners[whole.hashes.index(high)]
    assert whole.owner(whole.hashes[-1] + 1) == whole.owners[0]


@given(st.integers(0, 2**64 - 1))
def test_a_walk_visits_every_entry_of_the_ring_once(hashed):
    whole = ring((1, 1, 1, 1), 16, 16)
    walked = list(whole.walk(hashed))
    assert walked[0] == whole.owner(hashed)
    assert Counter(walked) == Counter(whole.owners)


def test_only_the_hashes_of_a_removed_endpoint_move():
    with_all, without_last = ring((1, 1, 1, 1)), ring((1, 1, 1))
    hashes = [xxh64_intdigest(f"key {n}".encode()) for n in range(2000)]
    moved = [h for h in hashes if with_all.owner(h) != without_last.owner(h) and with_all.owner(h) != 3]
    assert len(moved) < 2000 / 4  # a few more than none: the ring's size changes with the number of endpoints


def test_an_empty_ring_can_be_made():
    assert build_ring((), (), 1024, 4096).owners == ()


def test_endpoints_with_one_key_have_their_entries_each():
    owners = build_ring(("pod-0", "pod-0", "pod-1"), (1, 1, 1), 1024, 8_000_000).owners
    assert sorted(Counter(owners).values()) == [342, 342, 342]


def test_a_walk_from_any_hash_passes_both_endpoints_of_one_key():
    twins = build_ring(("pod-0", "pod-0"), (1, 1), 1024, 8_000_000)
    assert {frozenset(twins.walk(hashed)) for hashed in (0, 1 << 63, (1 << 64) - 1)} == {frozenset((0, 1))}
