"""The draft A100, with Envoy's fields: a host that has just become READY gets fewer turns, and more over time."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
from support.mesh import METHOD, Mesh, ask, spread
from support.policies import CONNECTING, READY, channel_control, endpoint_set, hosts

from trxds.core.json_reader import JsonNode
from trxds.lb.balancing_config import make_parser
from trxds.lb.least_request import LeastRequest
from trxds.lb.pick import PickArgs
from trxds.lb.policy import PolicyInputs
from trxds.lb.round_robin import RoundRobin
from trxds.lb.weighted_round_robin.policy import WeightedRoundRobin
from trxds.resources import leaf_policy, protos
from trxds.resources.context import ParseContext
from trxds.resources.experiments import SLOW_START_VARIABLE, Experiments, read_experiments
from trxds.resources.slow_start import SlowStart
from trxds.resources.types import CDS
from trxds.testing import resources as xds

ON = ParseContext(experiments=Experiments(slow_start=True))
POLICIES = "type.googleapis.com/envoy.extensions.load_balancing_policies"
BY_NAME = {
    "round_robin": (RoundRobin, leaf_policy.RoundRobin),
    "least_request": (LeastRequest, leaf_policy.LeastRequest),
    "weighted_round_robin": (WeightedRoundRobin, leaf_policy.ClientSideWeightedRoundRobin),
}


# -- the share


@pytest.mark.parametrize(
    ("age", "aggression", "expected"),
    [
        (0, 1, 0.1),  # min_weight_percent
        (5, 1, 0.1),
        (25, 1, 0.25),
        (50, 1, 0.5),
        (25, 2, 0.5),  # the square root
        (25, 0.5, 0.1),  # the square is below the minimum
        (99.9, 1, 0.999),
        (100, 1, 1.0),
        (1000, 2, 1.0),
    ],
)
def test_the_share_grows_from_the_minimum_to_all_within_the_window(age, aggression, expected):
    assert SlowStart(100.0, aggression).scale(age) == pytest.approx(expected)


def test_the_first_second_counts_as_a_whole_one():
    rules = SlowStart(10.0, min_weight=0.0)
    assert rules.scale(0.0) == rules.scale(1.0) == pytest.approx(0.1)


# -- the policies


class Balanced:
    """One policy with slow start, whose hosts and time the test sets."""

    def __init__(self, name: str, window: float = 100.0, min_weight: float = 0.1) -> None:
        kind, config = BY_NAME[name]
        self.policy = kind(channel_control())
        self.config = config(slow_start=SlowStart(window, min_weight=min_weight))
        self.decision = None

    def decide(self, now: float, **states):
        inputs = PolicyInputs(self.config, hosts=hosts(**states), endpoints=endpoint_set(sorted(states)))
        self.decision = self.policy.decide(inputs, now)
        self.describes = self.policy.describe(inputs, now)
        return self

    def share_of(self, host: str, now: float, number: int = 4000) -> float:
        """Return the share of calls at `now`, for one call in flight at a time, as a multiple of a fair share."""
        picks = Counter()
        for _ in range(number):
            complete = self.decision.picker.pick(PickArgs("/s/m", now=now))
            picks[complete.host.address] += 1
        return picks[host] / (number / len(picks))


@pytest.fixture(params=BY_NAME)
def name(request):
    return request.param


def test_a_new_host_gets_a_small_share(name):
    balanced = Balanced(name).decide(0.0, a=READY, b=READY).decide(1000.0, a=READY, b=READY, c=READY)
    # A tenth of the weight of two others: 0.1 of 2.1, times three.
    assert balanced.share_of("c", 1000.0) == pytest.approx(0.143, abs=0.05)


def test_half_way_its_share_is_half(name):
    balanced = Balanced(name).decide(0.0, a=READY, b=READY).decide(1000.0, a=READY, b=READY, c=READY)
    assert balanced.share_of("c", 1050.0) == pytest.approx(0.6, abs=0.1)


def test_after_the_window_all_are_equal(name):
    balanced = Balanced(name).decide(0.0, a=READY, b=READY).decide(1000.0, a=READY, b=READY, c=READY)
    balanced.decide(1100.0, a=READY, b=READY, c=READY)
    assert balanced.share_of("c", 1101.0) == pytest.approx(1.0, abs=0.1)


def test_hosts_that_start_together_are_equal(name):
    balanced = Balanced(name).decide(0.0, a=READY, b=READY)
    assert balanced.share_of("a", 1.0) == pytest.approx(1.0, abs=0.1)


def test_a_host_that_was_lost_starts_slowly_again(name):
    balanced = Balanced(name).decide(0.0, a=READY, b=READY, c=READY).decide(1000.0, a=READY, b=READY, c=CONNECTING)
    balanced.decide(1010.0, a=READY, b=READY, c=READY)
    assert balanced.share_of("c", 1010.0) == pytest.approx(0.143, abs=0.05)


def test_all_hosts_start_slowly_again_when_all_were_lost(name):
    balanced = Balanced(name).decide(0.0, a=READY, b=READY).decide(1000.0, a=CONNECTING, b=CONNECTING)
    assert "2 in slow start" in balanced.decide(1010.0, a=READY, b=READY).describes


def test_an_update_does_not_start_a_host_again(name):
    balanced = Balanced(name).decide(0.0, a=READY, b=READY).decide(50.0, a=READY, b=READY)
    assert "2 in slow start" in balanced.describes
    assert "slow start" not in balanced.decide(100.0, a=READY, b=READY).describes


def test_a_least_share_of_nothing_still_gets_turns(name):
    balanced = Balanced(name, window=1e9, min_weight=0.0).decide(0.0, a=READY, b=READY)
    balanced.decide(2e9, a=READY, b=READY, c=READY)
    assert balanced.share_of("c", 2e9) < 0.1


def test_hosts_whose_shares_are_all_nothing_are_equal():
    balanced = Balanced("least_request")
    balanced.config = leaf_policy.LeastRequest(slow_start=SlowStart(60.0, 0.003, 0.0))
    assert balanced.decide(0.0, a=READY, b=READY, c=READY).share_of("a", 0.0) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("name", ["round_robin", "least_request"])
def test_the_policy_decides_again_when_the_last_host_has_started(name):
    balanced = Balanced(name).decide(0.0, a=READY).decide(50.0, a=READY, b=READY)
    assert balanced.decision.wake_at == 150.0
    slow = type(balanced.decision.picker)
    balanced.decide(150.0, a=READY, b=READY)
    assert type(balanced.decision.picker) is not slow


def test_new_rules_hold_for_hosts_that_are_starting(name):
    balanced = Balanced(name).decide(0.0, a=READY, b=READY).decide(1000.0, a=READY, b=READY, c=READY)
    balanced.config = BY_NAME[name][1](slow_start=SlowStart(20.0))
    balanced.decide(1010.0, a=READY, b=READY, c=READY)
    assert balanced.share_of("c", 1010.0) == pytest.approx(0.6, abs=0.1)


def test_rules_that_go_end_slow_start(name):
    balanced = Balanced(name).decide(0.0, a=READY, b=READY).decide(1000.0, a=READY, b=READY, c=READY)
    balanced.config = BY_NAME[name][1]()
    balanced.decide(1001.0, a=READY, b=READY, c=READY)
    assert balanced.share_of("c", 1001.0) == pytest.approx(1.0, abs=0.1)


def test_a_host_that_was_ready_without_rules_does_not_start_slowly_when_they_return(name):
    with_rules, without = Balanced(name).config, BY_NAME[name][1]()
    balanced = Balanced(name).decide(0.0, a=READY)
    balanced.config = without
    balanced.decide(1000.0, a=READY, b=READY)
    balanced.config = with_rules
    balanced.decide(5000.0, a=READY, b=READY)
    assert balanced.share_of("b", 5001.0) == pytest.approx(1.0, abs=0.1)


# -- its configuration


def cluster(policy: str, message: str, **slow_start):
    body = {"@type": f"{POLICIES}.{policy}.v3.{message}", "slow_start_config": slow_start}
    extension = {"typed_extension_config": {"name": "p", "typed_config": body}}
    return xds.cluster("cart") | {"load_balancing_policy": {"policies": [extension]}}


def read(resource, context=ON):
    return CDS.read(protos.from_json(resource), context)


TYPES = [
    ("round_robin", "RoundRobin"),
    ("least_request", "LeastRequest"),
    ("client_side_weighted_round_robin", "ClientSideWeightedRoundRobin"),
]


@pytest.mark.parametrize(("policy", "message"), TYPES)
def test_each_policy_reads_it(policy, message):
    resource = cluster(
        policy,
        message,
        slow_start_window="30s",
        aggression={"default_value": 2, "runtime_key": "x"},
        min_weight_percent={"value": 25},
    )
    assert read(resource).value.lb_policy.slow_start == SlowStart(30.0, 2.0, 0.25)


@pytest.mark.parametrize(("policy", "message"), TYPES)
def test_without_the_variable_it_is_ignored_even_if_it_is_wrong(policy, message):
    resource = cluster(policy, message, slow_start_window="-1s")
    assert read(resource, ParseContext()).value.lb_policy.slow_start is None


@pytest.mark.parametrize("policy", ["round_robin", "least_request"])
def test_the_older_fields_of_a_cluster_have_it_too(policy):
    resource = xds.cluster("cart") | {
        "lb_policy": policy.upper(),
        f"{policy}_lb_config": {"slow_start_config": {"slow_start_window": "30s"}},
    }
    assert read(resource).value.lb_policy.child.slow_start == SlowStart(30.0)


@pytest.mark.parametrize("slow_start", [{}, {"slow_start_window": "0s"}])
def test_without_a_window_there_is_no_slow_start(slow_start):
    assert read(cluster(*TYPES[0], **slow_start)).value.lb_policy.slow_start is None


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"slow_start_window": "-1s"}, "slow_start_config.slow_start_window"),
        ({"aggression": {"default_value": 0, "runtime_key": "x"}}, "slow_start_config.aggression.default_value"),
        ({"aggression": {"default_value": "NaN", "runtime_key": "x"}}, "slow_start_config.aggression.default_value"),
        ({"min_weight_percent": {"value": 101}}, "slow_start_config.min_weight_percent.value"),
        ({"min_weight_percent": {"value": -1}}, "slow_start_config.min_weight_percent.value"),
    ],
)
def test_a_bad_value_is_refused_with_its_place(fields, where):
    (error,) = read(cluster(*TYPES[0], **({"slow_start_window": "30s"} | fields))).errors
    assert where in error


def test_the_variable_switches_it_on():
    assert read_experiments({SLOW_START_VARIABLE: "True"}).slow_start
    assert not read_experiments({SLOW_START_VARIABLE: "1"}).slow_start
    assert not read_experiments({}).slow_start


def service_config(policy, settings, experiments=ON.experiments):
    problems = []
    config = make_parser({}, experiments)(JsonNode({"loadBalancingConfig": [{policy: settings}]}, problems))
    return config, [f"{each.path}: {each.text}" for each in problems]


@pytest.mark.parametrize("policy", ["round_robin", "least_request_experimental", "weighted_round_robin"])
def test_a_service_config_has_it_too(policy):
    settings = {"slowStartConfig": {"slowStartWindow": "30s", "aggression": 2, "minWeightPercent": 25}}
    config, problems = service_config(policy, settings)
    assert problems == []
    assert config.slow_start == SlowStart(30.0, 2.0, 0.25)
    assert service_config(policy, settings, Experiments())[0].slow_start is None


@pytest.mark.parametrize("settings", [{"aggression": 0}, {"minWeightPercent": 101}, {"slowStartWindow": "x"}])
def test_a_bad_value_in_a_service_config_is_named(settings):
    _, (problem,) = service_config("round_robin", {"slowStartConfig": settings})
    assert f"slowStartConfig.{next(iter(settings))}" in problem


# -- a whole mesh


async def test_a_host_that_joins_a_cluster_gets_its_calls_little_by_little(autojump_clock, monkeypatch):
    monkeypatch.setenv(SLOW_START_VARIABLE, "true")
    async with Mesh.run(2) as mesh:
        mesh.plane.put(cluster(*TYPES[0], slow_start_window="60s"))
        async with mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(100)
            new = await mesh.add_host()
            mesh.endpoints("cart", mesh.hosts)
            await trio.sleep(0.5)
            at_first = (await spread(channel, 100))[new]
            await trio.sleep(30)
            later = (await spread(channel, 100))[new]
            await trio.sleep(60)
            assert at_first < later < (await spread(channel, 99))[new] == 33
            assert at_first < 12


async def test_an_explanation_says_that_a_host_starts_slowly(autojump_clock, monkeypatch):
    monkeypatch.setenv(SLOW_START_VARIABLE, "true")
    async with Mesh.run(1) as mesh:
        mesh.plane.put(cluster(*TYPES[0], slow_start_window="60s"))
        async with mesh.channel() as channel:
            await ask(channel)
            text = str(await channel.explain(METHOD))
    assert "1 in slow start" in text
    assert "it is its turn, with a share of" in text
