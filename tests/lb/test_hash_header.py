"""ring_hash may hash a header that its own configuration names (A76); tested by values."""

from collections import Counter
from dataclasses import replace

import pytest
from msgspec import structs
from support.policies import CONNECTING, FAILURE, READY, FakeHost, channel_control, endpoint_set
from xxhash import xxh64_intdigest

from trxds.core.metadata import Metadata
from trxds.lb.pick import QUEUE, Complete, Fail, PickArgs, Trace
from trxds.lb.policy import PolicyInputs
from trxds.lb.ring_hash.policy import RingHash
from trxds.resources.leaf_policy import RingHash as RingHashConfig

NAMES = "abcd"


class Ringed:
    """The policy over four hosts in the states of the test; all others are IDLE."""

    def __init__(self, **states):
        self.pick_events = set()
        self.policy = RingHash(replace(channel_control(), notify_policy=self.pick_events.add))
        config = RingHashConfig(64, 4096, header="x-user")
        self.inputs = PolicyInputs(
            config, {}, {name: FakeHost(name, state) for name, state in states.items()}, endpoints=endpoint_set(NAMES)
        )
        for name in states:
            self.policy.decide(structs.replace(self.inputs, pick_events=frozenset({name})), 0.0)
        self.picker = self.policy.decide(self.inputs, 0.0).picker

    def pick(self, *metadata, **args):
        return self.picker.pick(PickArgs("/s/m", Metadata(metadata), **args))

    def explain(self, *metadata):
        trace = Trace()
        return self.pick(*metadata, trace=trace), trace.notes[-1]


def all_ready():
    return Ringed(**dict.fromkeys(NAMES, READY))


def test_equal_header_values_go_to_one_host_and_different_ones_to_others():
    ringed = all_ready()
    users = [("x-user", f"user {n}") for n in range(40)]
    chosen = [ringed.pick(user).host.address for user in users]
    assert chosen == [ringed.pick(user).host.address for user in users]
    assert set(chosen) == set(NAMES)


def test_the_hash_of_a_header_is_that_of_xds_over_its_joined_values():
    ringed = all_ready()
    call = PickArgs("/s/m", Metadata([("x-user", "a"), ("other", "1"), ("x-user", "b")]))
    ringed.picker.pick(call)
    assert call.hash == xxh64_intdigest(b"a,b")


def test_a_hash_header_replaces_the_routes_hash():
    ringed = all_ready()
    assert len({ringed.pick(("x-user", "me"), hash=n << 56).host.address for n in range(256)}) == 1


def test_ring_hash_by_header_goes_on_past_a_failed_host():
    host = all_ready().pick(("x-user", "me")).host.address
    ringed = Ringed(**{host: FAILURE})
    assert ringed.pick(("x-user", "me")) is QUEUE
    assert len(ringed.pick_events) == 1 and host not in ringed.pick_events


@pytest.mark.parametrize("metadata", [(), (("x-user", ""),)])
class TestWithoutTheHeader:
    def test_an_rpc_without_the_hash_header_may_go_to_any_host(self, metadata):
        ringed = all_ready()
        met = Counter(ringed.pick(*metadata).host.address for _ in range(400))
        assert min(met[name] for name in NAMES) > 20, "by the shares of a small ring"

    def test_an_rpc_without_the_hash_header_uses_a_ready_host_and_connects_another(self, metadata):
        ringed = Ringed(b=READY)
        results = [ringed.pick(*metadata) for _ in range(40)]
        assert {result.host.address for result in results} == {"b"}
        assert ringed.pick_events and "b" not in ringed.pick_events

    def test_an_rpc_without_the_hash_header_connects_one_host(self, metadata):
        ringed = Ringed()
        assert ringed.pick(*metadata) is QUEUE
        assert len(ringed.pick_events) == 1

    def test_an_rpc_without_the_hash_header_connects_no_host_while_one_is_connecting(self, metadata):
        ringed = Ringed(b=CONNECTING)
        assert ringed.pick(*metadata) is QUEUE
        assert ringed.pick_events == set()

    def test_an_rpc_without_the_hash_header_fails_when_all_hosts_have_failed(self, metadata):
        ringed = Ringed(**dict.fromkeys(NAMES, FAILURE))
        result = ringed.pick(*metadata)
        assert isinstance(result, Fail)
        assert "refused" in result.status.message

    def test_each_attempt_without_the_hash_header_draws_its_own_hash(self, metadata):
        ringed = all_ready()
        call = PickArgs("/s/m", Metadata(metadata))
        assert isinstance(ringed.picker.pick(call), Complete)
        assert call.hash is None


class TestExplaining:
    def test_an_explanation_shows_the_hash_of_the_header(self):
        hashed = f"hash {xxh64_intdigest(b'me'):#018x} of header x-user"
        ringed = all_ready()
        result, note = ringed.explain(("x-user", "me"))
        assert note.saw.endswith(hashed)
        assert result.host.address == ringed.pick(("x-user", "me")).host.address

    def test_an_explanation_without_the_hash_header_draws_and_chooses_the_next_ready_host(self):
        result, note = Ringed(b=READY).explain()
        assert "drawn because the RPC has no header x-user" in note.saw
        assert result.host.address == "b"

    def test_an_explanation_without_the_hash_header_waits_for_a_host(self):
        ringed = Ringed(b=CONNECTING)
        result, note = ringed.explain()
        assert (result, note.waits_for) == (QUEUE, "an endpoint to connect")
        assert not ringed.pick_events
