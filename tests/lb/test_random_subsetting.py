"""random_subsetting, by values (A68)."""

from collections import Counter

import pytest
from support.policies import READY, endpoints, picked, report, surroundings

from trxds.config.policies import (
    PickFirstConfig,
    RandomSubsettingConfig,
    RingHashConfig,
    RoundRobinConfig,
    Target,
    WeightedTargetConfig,
)
from trxds.lb.policy import Inputs
from trxds.lb.random_subsetting import RandomSubsetting
from trxds.resources.endpoint import Endpoint

NAMES = tuple(f"10.0.0.{n}:80" for n in range(20))


def child(names=NAMES, size=5, seed=1, policy=None, its_child=None):
    """The configuration that the child gets."""
    config = RandomSubsettingConfig(size, its_child or RoundRobinConfig(endpoints(names)))
    return (policy or RandomSubsetting(surroundings(seed))).decide(Inputs(config), 0.0).children["subset"]


def subset(*args, **more):
    return {endpoint.addresses[0] for endpoint in child(*args, **more).endpoints}


def test_the_child_gets_so_many_endpoints():
    assert len(subset()) == 5
    assert subset() < set(NAMES)


def test_it_gets_all_when_there_are_no_more():
    assert subset(size=20) == subset(size=99) == set(NAMES)


def test_clients_choose_differently_and_all_endpoints_are_chosen_about_as_often():
    counted = Counter(name for seed in range(400) for name in subset(seed=seed))
    assert set(counted) == set(NAMES)
    assert min(counted.values()) > 60 and max(counted.values()) < 140


@pytest.mark.parametrize("seed", range(5))
def test_one_that_comes_or_goes_changes_one_at_most(seed):
    policy = RandomSubsetting(surroundings(seed))
    before = subset(policy=policy)
    for names in (NAMES[1:], (*NAMES, "10.0.0.99:80"), NAMES[::-1]):
        assert len(before - subset(names, policy=policy)) <= 1


def test_an_endpoint_counts_by_its_first_address():
    both = RoundRobinConfig((Endpoint(("a", "b")), Endpoint(("c",))))
    assert len(child(its_child=both, size=1).endpoints) == 1


@pytest.mark.parametrize("config", [PickFirstConfig, lambda its, weights: RingHashConfig(its, weights, 1, 9)])
def test_weights_stay_with_their_endpoints(config):
    its = child(its_child=config(endpoints("abcdef"), (1, 2, 3, 4, 5, 6)), size=3)
    assert its.weights == tuple("abcdef".index(endpoint.addresses[0]) + 1 for endpoint in its.endpoints)


def test_a_locality_of_which_nothing_is_left_is_not_drawn():
    localities = {name: Target(1, RoundRobinConfig(endpoints(name))) for name in "abcdef"}
    its = child(its_child=WeightedTargetConfig(localities), size=2)
    assert len(its.targets) == 2


def test_nested_subsets_are_subsets_of_subsets():
    inner = RandomSubsettingConfig(3, RoundRobinConfig(endpoints(NAMES)))
    assert len(child(its_child=inner).child.endpoints) == 5


def test_state_and_picker_are_the_childs():
    config = RandomSubsettingConfig(1, RoundRobinConfig(endpoints("ab")))
    decision = RandomSubsetting(surroundings()).decide(Inputs(config, {"subset": report(READY)}), 0.0)
    assert decision.state is READY
    assert picked(decision.picker) == ["host"]


def test_one_configuration_is_narrowed_once():
    policy = RandomSubsetting(surroundings())
    config = RandomSubsettingConfig(1, RoundRobinConfig(endpoints("ab")))
    first, second = (policy.decide(Inputs(config), 0.0).children["subset"] for _ in range(2))
    assert first is second
