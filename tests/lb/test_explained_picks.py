"""An explained pick changes nothing and gives its reason, and the next pick goes where it said; tested by values."""

from random import Random

import pytest
from msgspec import structs
from support.decided_policies import (
    NAMES,
    PF,
    RR,
    DecidedPolicy,
    cluster_impl,
    leaf,
    ready,
    ring,
    sessions,
    summary,
    weighted,
)
from support.policies import CONNECTING, FAILURE, IDLE, READY, FakeHost, endpoint_set, report

from trxds.lb.cds import AggregateErrorPicker, UnroutedPicker
from trxds.lb.circuit_breakers import CallCounter
from trxds.lb.cluster_impl import ClusterImplPicker
from trxds.lb.cluster_manager import ClusterManager, ClusterManagerPicker
from trxds.lb.configs import ClusterManagerConfig
from trxds.lb.least_request import LeastRequest
from trxds.lb.load_report.load_store import LoadStore
from trxds.lb.outlier_detection.policy import OutlierDetectionPicker
from trxds.lb.pick import QUEUE, Drop, Explainable, Override, PickArgs, Trace
from trxds.lb.pick_first import PickFirst
from trxds.lb.policy import PolicyInputs
from trxds.lb.round_robin import RoundRobin
from trxds.lb.weighted_round_robin.policy import WeightedRoundRobin
from trxds.lb.weighted_target import WeightedTargetPicker
from trxds.resources.endpoint import DropOverload as DropShare
from trxds.resources.leaf_policy import ClientSideWeightedRoundRobin
from trxds.resources.leaf_policy import LeastRequest as LeastRequestConfig
from trxds.resources.leaf_policy import RoundRobin as RoundRobinConfig
from trxds.resources.slow_start import SlowStart


def idle_pick_first(seed):
    """Return the policy after its connection was lost."""
    its = leaf(PickFirst, PF, ready("a"))(seed)
    its.pool["a"].state = IDLE
    its.decision = its.policy.decide(its.inputs, 1.0)
    return its


SLOWLY = SlowStart(100.0, min_weight=0.1)
TWO = {"a": report(READY, "a"), "b": report(READY, "b")}
SITUATIONS = {
    "cluster manager": (
        lambda seed: DecidedPolicy(ClusterManager, ClusterManagerConfig(("a",)), {"a": report(READY)}),
        {"cluster": "a"},
    ),
    "unknown cluster": (
        lambda seed: DecidedPolicy(ClusterManager, ClusterManagerConfig(("a",))),
        {"cluster": "b"},
    ),
    "drops": (cluster_impl(drops=(DropShare("lb", 500_000),)), {}),
    "circuit breaker": (cluster_impl(max_requests=0), {}),
    "weighted target": (weighted(TWO, a=1, b=3), {}),
    "weighted target, waiting": (weighted({}, a=1), {}),
    "round_robin": (leaf(RoundRobin, RR, ready(*NAMES)), {}),
    "round_robin, connecting": (leaf(RoundRobin, RR), {}),
    "round_robin, failed": (leaf(RoundRobin, RR, [FakeHost(name, FAILURE) for name in NAMES]), {}),
    "least_request": (leaf(LeastRequest, LeastRequestConfig(2), ready(*NAMES)), {}),
    "round_robin in slow start": (leaf(RoundRobin, RoundRobinConfig(SLOWLY), ready(*NAMES)), {}),
    "least_request in slow start": (leaf(LeastRequest, LeastRequestConfig(2, SLOWLY), ready(*NAMES)), {}),
    "weighted_round_robin": (leaf(WeightedRoundRobin, ClientSideWeightedRoundRobin(), ready(*NAMES)), {}),
    "pick_first": (leaf(PickFirst, PF, ready("a")), {}),
    "pick_first, idle": (idle_pick_first, {}),
    "pick_first without addresses": (leaf(PickFirst, PF, endpoints=endpoint_set("", "none")), {}),
    "ring_hash": (ring(a=READY, b=FAILURE, c=CONNECTING), {"hash": 1 << 62}),
    "ring_hash, another": (ring(a=FAILURE, b=READY, c=FAILURE), {"hash": 7}),
    "ring_hash without a hash": (ring(a=READY, b=READY, c=READY), {}),
    "ring_hash, idle": (ring(), {"hash": 7}),
    "ring_hash, failed": (ring(**dict.fromkeys(NAMES, FAILURE)), {"hash": 7}),
    "ring_hash without the header": (ring("x-user", a=READY, b=READY, c=READY), {}),
    "ring_hash without the header, idle": (ring("x-user"), {}),
    "a session on its host": (sessions(*ready("a")), {"override": ("a",)}),
    "a session's second host": (sessions(FakeHost("a", FAILURE), *ready("b")), {"override": ("a", "b")}),
    "a session's idle host": (sessions(FakeHost("a", IDLE)), {"override": ("a", "b")}),
    "a session's host to be connected": (sessions(), {"override": ("a",)}),
    "a session without a host": (sessions(), {"override": ("x",)}),
    "no session yet": (sessions(), {"override": ()}),
    "no session filter": (sessions(), {}),
}


def args_of(args):
    return {**args, "override": Override(args["override"])} if "override" in args else args


@pytest.mark.parametrize(("decided", "args"), SITUATIONS.values(), ids=SITUATIONS)
@pytest.mark.parametrize("seed", range(3))
def test_an_explanation_changes_nothing_and_the_next_pick_does_what_it_said(decided, args, seed):
    its = decided(seed)
    for _ in range(4):
        explained = [its.explain(**args_of(args)) for _ in range(3)]
        picked = its.pick(**args_of(args))
        assert {repr(summary(result)) for result, _ in explained} == {repr(summary(picked))}
        assert all(note == explained[0][1] for _, note in explained)
        assert explained[0][1].why


def test_an_explained_drop_is_not_counted():
    share, loads = DropShare("lb", 1_000_000), LoadStore()
    picker = ClusterImplPicker((share,), 1, CallCounter(), None, Random(1), loads.of("server", "cart", ""))
    assert isinstance(picker.pick(PickArgs("/s/m", trace=Trace())), Drop)
    assert loads.take("server") == ()


def test_an_explained_turn_does_not_read_the_weights_again():
    its = leaf(WeightedRoundRobin, ClientSideWeightedRoundRobin(), ready(*NAMES))()
    its.now = 100.0
    schedule = its.decision.picker.schedule
    its.explain()
    assert schedule._update_at < 0


# -- a picker that does not explain itself


class Opaque:
    def pick(self, call):
        raise AssertionError("called to explain")


ABOVE = {
    "cluster manager": lambda child: ClusterManagerPicker({"": child}, {"": READY}),
    "cluster impl": lambda child: ClusterImplPicker((), 1, CallCounter(), child, Random(1)),
    "outlier detection": lambda child: OutlierDetectionPicker(child, {}),
    "weighted target": lambda child: WeightedTargetPicker(("a",), (child,), (1,), Random(1)),
    "aggregate": lambda child: AggregateErrorPicker(child, "note"),
    "unrouted": UnroutedPicker,
}


@pytest.mark.parametrize("above", ABOVE.values(), ids=ABOVE)
def test_an_explanation_does_not_call_an_opaque_picker(above):
    trace = Trace()
    assert isinstance(above(None), Explainable)
    assert above(Opaque()).pick(PickArgs("/s/m", trace=trace)) is QUEUE
    assert trace.is_opaque


@pytest.mark.parametrize("override", [None, (), ("x",)])
def test_an_explanation_does_not_call_an_opaque_picker_below_override_host(override):
    its, trace = sessions()(), Trace()
    picker = its.policy.decide(
        PolicyInputs(its.inputs.config, {"everybody": report(READY)}, endpoints=its.inputs.endpoints), 0.0
    ).picker
    structs.force_setattr(picker, "child", Opaque())
    picker.pick(PickArgs("/s/m", override=None if override is None else Override(override), trace=trace))
    assert trace.is_opaque
