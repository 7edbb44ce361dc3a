"""Policies among endpoints: by load_balancing_policy, and by a cluster's older fields (A42, A48, A58, A62, A68)."""

from __future__ import annotations

from typing import Any

import pytest

from trxds.resources.cluster import Cluster
from trxds.resources.lb_policy import RandomSubsetting, WrrLocality
from trxds.resources.leaf_policy import ClientSideWeightedRoundRobin, LbPolicyConfig, LeastRequest, PickFirst, RingHash
from trxds.resources.types import CDS

POLICIES = "envoy.extensions.load_balancing_policies."
PICK_FIRST = f"{POLICIES}pick_first.v3.PickFirst"
RING_HASH = f"{POLICIES}ring_hash.v3.RingHash"
WEIGHTED = f"{POLICIES}client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"
SUBSETTING = f"{POLICIES}random_subsetting.v3.RandomSubsetting"
LEAST_REQUEST = f"{POLICIES}least_request.v3.LeastRequest"


def cds(**more: Any) -> dict[str, Any]:
    return {"name": "a", "type": "EDS", "eds_cluster_config": {"eds_config": {"ads": {}}}, **more}


def by_type(name: str, **fields: Any) -> dict[str, Any]:
    config = {"name": "x", "typed_config": {"@type": f"type.googleapis.com/{name}", **fields}}
    return cds(load_balancing_policy={"policies": [{"typed_extension_config": config}]})


ACCEPTED = {
    "pick_first": (by_type(PICK_FIRST), PickFirst()),
    "pick_first, shuffled": (by_type(PICK_FIRST, shuffle_address_list=True), PickFirst(shuffle=True)),
    "ring_hash": (by_type(RING_HASH), RingHash(1024, 8388608)),
    "ring_hash with sizes": (
        by_type(RING_HASH, hash_function="XX_HASH", minimum_ring_size=1, maximum_ring_size=8388608),
        RingHash(1, 8388608),
    ),
    "ring_hash of one size": (
        by_type(RING_HASH, minimum_ring_size=64, maximum_ring_size=64),
        RingHash(64, 64),
    ),
    "least_request": (by_type(LEAST_REQUEST), LeastRequest(2)),
    "least_request of 7": (by_type(LEAST_REQUEST, choice_count=7), LeastRequest(7)),
    "at most ten choices": (by_type(LEAST_REQUEST, choice_count=11), LeastRequest(10)),
    "weighted_round_robin": (by_type(WEIGHTED), ClientSideWeightedRoundRobin(10.0, 180.0, 1.0, 1.0)),
    "weighted_round_robin with periods": (
        by_type(
            WEIGHTED,
            blackout_period="2s",
            weight_expiration_period="3s",
            weight_update_period="4s",
            error_utilization_penalty=0.5,
        ),
        ClientSideWeightedRoundRobin(2.0, 3.0, 4.0, 0.5),
    ),
    "weighted_round_robin without a penalty": (
        by_type(WEIGHTED, error_utilization_penalty=0),
        ClientSideWeightedRoundRobin(error_penalty=0.0),
    ),
    "reports out of band": (
        by_type(WEIGHTED, enable_oob_load_report=True),
        ClientSideWeightedRoundRobin(reporting_period=10.0),
    ),
    "reports out of band, every second": (
        by_type(WEIGHTED, enable_oob_load_report=True, oob_reporting_period="1s"),
        ClientSideWeightedRoundRobin(reporting_period=1.0),
    ),
    "weights at most ten times a second": (
        by_type(WEIGHTED, weight_update_period="0.001s"),
        ClientSideWeightedRoundRobin(update_period=0.1),
    ),
    "random_subsetting": (
        by_type(SUBSETTING, subset_size=3, child_policy=by_type(PICK_FIRST)["load_balancing_policy"]),
        RandomSubsetting(3, PickFirst()),
    ),
    "RING_HASH": (cds(lb_policy="RING_HASH"), RingHash(1024, 8388608)),
    "RING_HASH with sizes": (
        cds(lb_policy="RING_HASH", ring_hash_lb_config={"minimum_ring_size": 3, "maximum_ring_size": 5}),
        RingHash(3, 5),
    ),
    "LEAST_REQUEST": (cds(lb_policy="LEAST_REQUEST"), WrrLocality(LeastRequest(2))),
    "LEAST_REQUEST of 3": (
        cds(lb_policy="LEAST_REQUEST", least_request_lb_config={"choice_count": 3}),
        WrrLocality(LeastRequest(3)),
    ),
}


@pytest.mark.parametrize(("resource", "policy"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_leaf_policy_is_parsed_with_its_fields(read: Any, resource: dict[str, Any], policy: LbPolicyConfig) -> None:
    parsed = read(CDS, resource)
    assert parsed.errors == ()
    assert isinstance(parsed.value, Cluster) and parsed.value.lb_policy == policy


TYPED = "load_balancing_policy.policies[0].typed_extension_config.typed_config"
AT_RING = f"{TYPED}.value[{RING_HASH}]"
RANGE = "value must be in the range [1, 8388608]"

REFUSED = {
    "another hash": (
        by_type(RING_HASH, hash_function="MURMUR_HASH_2"),
        f"{AT_RING}.hash_function error:unsupported value (must be XX_HASH)",
    ),
    "no ring": (by_type(RING_HASH, minimum_ring_size=0), f"{AT_RING}.minimum_ring_size error:{RANGE}"),
    "too large a ring": (by_type(RING_HASH, maximum_ring_size=8388609), f"{AT_RING}.maximum_ring_size error:{RANGE}"),
    "a smallest above the largest": (
        by_type(RING_HASH, minimum_ring_size=1000, maximum_ring_size=999),
        f"{AT_RING}.minimum_ring_size error:cannot be greater than maximum_ring_size",
    ),
    "another hash, older field": (
        cds(lb_policy="RING_HASH", ring_hash_lb_config={"hash_function": "MURMUR_HASH_2"}),
        "ring_hash_lb_config.hash_function error:unsupported value (must be XX_HASH)",
    ),
    "a smallest above the default largest, older field": (
        cds(lb_policy="RING_HASH", ring_hash_lb_config={"maximum_ring_size": 1000}),
        "ring_hash_lb_config.minimum_ring_size error:cannot be greater than maximum_ring_size",
    ),
    "a negative penalty": (
        by_type(WEIGHTED, error_utilization_penalty=-1),
        f"{TYPED}.value[{WEIGHTED}].error_utilization_penalty error:value must be non-negative",
    ),
    "a penalty that is not a number": (
        by_type(WEIGHTED, error_utilization_penalty="NaN"),
        f"{TYPED}.value[{WEIGHTED}].error_utilization_penalty error:value must be finite",
    ),
    "an infinite penalty": (
        by_type(WEIGHTED, error_utilization_penalty="Infinity"),
        f"{TYPED}.value[{WEIGHTED}].error_utilization_penalty error:value must be finite",
    ),
    "a negative period": (
        by_type(WEIGHTED, blackout_period="-1s"),
        f"{TYPED}.value[{WEIGHTED}].blackout_period.seconds error:value must be in the range [0, 315576000000]",
    ),
    "an empty subset": (
        by_type(SUBSETTING, child_policy=by_type(PICK_FIRST)["load_balancing_policy"]),
        f"{TYPED}.value[{SUBSETTING}].subset_size error:must be greater than 0",
    ),
    "a subset for nobody": (
        by_type(SUBSETTING, subset_size=3),
        f"{TYPED}.value[{SUBSETTING}].child_policy error:field not present",
    ),
    "no choice": (
        by_type(LEAST_REQUEST, choice_count=1),
        f"{TYPED}.value[{LEAST_REQUEST}].choice_count error:must be at least 2",
    ),
}


@pytest.mark.parametrize(("resource", "error"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_leaf_policy_is_rejected_with_its_field(read: Any, resource: dict[str, Any], error: str) -> None:
    assert read(CDS, resource).errors == (f"field:{error}",)
