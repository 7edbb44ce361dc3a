"""A TypedStruct in load_balancing_policy: a policy by the name that it has in a service config (A52)."""

import math
from functools import partial

import pytest
from google.protobuf.struct_pb2 import Struct

from trxds.lb.balancing_config import make_struct_policies
from trxds.resources import protos
from trxds.resources.context import ParseContext
from trxds.resources.lb_policy import CustomPolicy, WrrLocality, parse_custom_policy
from trxds.resources.leaf_policy import RingHash
from trxds.resources.types import CDS
from trxds.testing import resources as xds

NAME = "my.pkg.Policy"
ROUND_ROBIN = "envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin"
WRR_LOCALITY = "type.googleapis.com/envoy.extensions.load_balancing_policies.wrr_locality.v3.WrrLocality"


def parsed(body, parse=dict):
    context = ParseContext(struct_policies={**make_struct_policies(), NAME: partial(parse_custom_policy, parse)})
    return CDS.read(protos.from_json(xds.cluster("c") | body), context)


def test_a_custom_policy_is_named_by_the_type_of_a_typed_struct():
    assert parsed(xds.custom_policy(NAME, size=3)).value.lb_policy == CustomPolicy(NAME, {"size": 3})


def test_a_custom_policy_may_be_the_child_of_wrr_locality():
    inner = xds.custom_policy(NAME)["load_balancing_policy"]
    config = {"name": "x", "typed_config": {"@type": WRR_LOCALITY, "endpoint_picking_policy": inner}}
    body = {"load_balancing_policy": {"policies": [{"typed_extension_config": config}]}}
    assert parsed(body).value.lb_policy == WrrLocality(CustomPolicy(NAME, {}))


def test_custom_policies_of_two_names_differ_with_equal_settings():
    assert CustomPolicy("one", {"size": 3}) != CustomPolicy("other", {"size": 3})


@pytest.mark.parametrize("error", [ValueError("too small"), KeyError("size")])
def test_an_exception_of_a_custom_policys_parser_rejects_the_resource(error):
    def parse(fields):
        raise error

    (problem,) = parsed(xds.custom_policy(NAME), parse).errors
    assert f"value[{NAME}] error:{type(error).__name__}: {error}" in problem


def test_a_typed_struct_may_name_a_policy_of_trxds_as_in_a_service_config():
    body = xds.custom_policy("ring_hash_experimental", minRingSize=10, maxRingSize=20)
    assert parsed(body).value.lb_policy == RingHash(10, 20)


def test_invalid_settings_in_a_typed_struct_reject_the_resource():
    (problem,) = parsed(xds.custom_policy("ring_hash_experimental", minRingSize=0)).errors
    assert "value[ring_hash_experimental].minRingSize error:must be in the range 1 to 8388608" in problem


@pytest.mark.parametrize("name", ["my.pkg.Other", ROUND_ROBIN])
def test_a_typed_struct_with_the_name_of_a_message_names_no_policy(name):
    (problem,) = parsed(xds.custom_policy(name)).errors
    assert "no supported load balancing policy config found" in problem


def test_a_protobuf_struct_becomes_json_data():
    struct = Struct()
    struct.update({"whole": 2, "part": 2.5, "text": "a", "no": None, "on": True, "deep": {"list": [1, "b", [False]]}})
    assert protos.plain(struct) == {
        "whole": 2,
        "part": 2.5,
        "text": "a",
        "no": None,
        "on": True,
        "deep": {"list": [1, "b", [False]]},
    }
    assert type(protos.plain(struct)["whole"]) is int


def test_a_protobuf_struct_keeps_nan_and_infinity():
    struct = Struct()
    struct.update({"x": math.inf})
    assert protos.plain(struct) == {"x": math.inf}
