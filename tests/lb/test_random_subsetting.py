"""random_subsetting gives its child a subset of the endpoints (A68); tested by values."""

from collections import Counter

import pytest
from support.policies import READY, channel_control, endpoint_set, endpoints, picked, report

from trxds.lb.configs import OutlierDetectionConfig, Target, WeightedTargetConfig
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.policy import PolicyInputs
from trxds.lb.random_subsetting import RandomSubsetting
from trxds.resources.endpoint import Endpoint
from trxds.resources.lb_policy import RandomSubsetting as RandomSubsettingConfig
from trxds.resources.leaf_policy import RoundRobin

LEAF = RoundRobin()
NAMES = tuple(f"10.0.0.{n}:80" for n in range(20))


def child(names=NAMES, size=5, seed=1, policy=None, its_child=LEAF, its_endpoints=None):
    """Return the configuration and the endpoints that the child gets."""
    its = endpoint_set(names) if its_endpoints is None else its_endpoints
    inputs = PolicyInputs(RandomSubsettingConfig(size, its_child), endpoints=its)
    decision = (policy or RandomSubsetting(channel_control(seed))).decide(inputs, 0.0)
    return decision.children["subset"], decision.endpoints["subset"]


def subset(*args, **more):
    return {endpoint.addresses[0] for endpoint in child(*args, **more)[1]}


def test_the_child_of_random_subsetting_gets_subset_size_endpoints():
    assert len(subset()) == 5
    assert subset() < set(NAMES)


def test_random_subsetting_keeps_all_of_few_endpoints():
    assert subset(size=20) == subset(size=99) == set(NAMES)


def test_clients_have_different_subsets_and_all_endpoints_are_equally_likely():
    counted = Counter(name for seed in range(400) for name in subset(seed=seed))
    assert set(counted) == set(NAMES)
    assert min(counted.values()) > 60 and max(counted.values()) < 140


def test_each_endpoint_is_equally_likely_to_be_the_first_of_a_subset():
    counted = Counter(child(seed=seed)[1][0].addresses[0] for seed in range(800))
    assert set(counted) == set(NAMES)
    assert max(counted.values()) < 80


def test_the_order_of_a_subset_does_not_depend_on_the_order_of_the_list():
    policy = RandomSubsetting(channel_control())
    assert child(policy=policy)[1].all == child(NAMES[::-1], policy=policy)[1].all


def test_the_endpoints_of_a_locality_have_the_order_of_the_subset():
    localities = Endpoints(endpoints("abcdef"), parts={"only": endpoint_set("fedcba")})
    _, its = child(its_endpoints=localities)
    assert its.parts["only"].all == its.all


def test_few_endpoints_keep_the_order_of_the_list():
    assert child(size=20)[1].all == endpoints(NAMES)


@pytest.mark.parametrize("seed", range(5))
def test_an_added_or_removed_endpoint_changes_one_of_a_subset_at_most(seed):
    policy = RandomSubsetting(channel_control(seed))
    before = subset(policy=policy)
    for names in (NAMES[1:], (*NAMES, "10.0.0.99:80"), NAMES[::-1]):
        assert len(before - subset(names, policy=policy)) <= 1


def test_an_endpoint_with_two_addresses_counts_once_for_random_subsetting():
    both = Endpoints((Endpoint(("a", "b")), Endpoint(("c",))))
    assert len(child(its_endpoints=both, size=1)[1]) == 1


def test_endpoints_of_a_subset_keep_their_weights():
    _, its = child(its_endpoints=endpoint_set("abcdef", weights=(1, 2, 3, 4, 5, 6)), size=3)
    assert its.weights == tuple("abcdef".index(endpoint.addresses[0]) + 1 for endpoint in its)


def test_a_locality_without_an_endpoint_in_the_subset_is_not_drawn():
    localities = Endpoints(endpoints("abcdef"), parts={name: endpoint_set(name) for name in "abcdef"})
    targets = WeightedTargetConfig({name: Target(1, LEAF) for name in "abcdef"})
    config, its = child(its_child=targets, its_endpoints=localities, size=2)
    assert len(config.targets) == 2
    assert config.targets.keys() == its.parts.keys()


def test_random_subsetting_narrows_nested_configurations_too():
    localities = Endpoints(endpoints("abcdef"), parts={name: endpoint_set(name) for name in "abcdef"})
    targets = WeightedTargetConfig({name: Target(1, LEAF) for name in "abcdef"})
    config, _ = child(its_child=OutlierDetectionConfig(None, targets), its_endpoints=localities, size=2)
    assert len(config.child.targets) == 2


def test_nested_subsets_are_subsets_of_subsets():
    inner = RandomSubsettingConfig(3, LEAF)
    config, its = child(its_child=inner)
    assert (config, len(its)) == (inner, 5)


def test_random_subsetting_reports_its_childs_state_and_picker():
    inputs = PolicyInputs(RandomSubsettingConfig(1, LEAF), {"subset": report(READY)}, endpoints=endpoint_set("ab"))
    decision = RandomSubsetting(channel_control()).decide(inputs, 0.0)
    assert decision.state is READY
    assert picked(decision.picker) == ["host"]


def test_random_subsetting_computes_one_subset_for_equal_inputs():
    policy = RandomSubsetting(channel_control())
    inputs = PolicyInputs(RandomSubsettingConfig(1, LEAF), endpoints=endpoint_set("ab"))
    first, second = (policy.decide(inputs, 0.0).endpoints["subset"] for _ in range(2))
    assert first is second
