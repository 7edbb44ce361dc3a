"""A message in an Any that cannot be read is refused with its place (A52)."""

from __future__ import annotations

import pytest

from trxds.resources import protos
from trxds.resources.context import ParseContext
from trxds.resources.extension import unpack
from trxds.resources.filters import HTTP_FILTERS, parse_filter_overrides
from trxds.resources.lb_policy import LB_POLICIES, WrapperPolicy, parse_load_balancing_policy
from trxds.resources.validation_errors import ValidationErrors

T = protos.TYPE_PREFIX
STRUCT = "xds.type.v3.TypedStruct"
NOT_A_MESSAGE = b"\xff"


def packed(type_url: str, value: bytes = NOT_A_MESSAGE) -> protos.AnyProto:
    return protos.AnyProto(type_url=type_url, value=value)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (packed(""), "field:type_url error:field not present"),
        (packed("a.B"), 'field:type_url error:invalid value "a.B"'),
        (packed(T), f'field:type_url error:invalid value "{T}"'),
        (packed(T + STRUCT), f"field:value[{STRUCT}] error:could not parse"),
        (packed(T + STRUCT, b""), f"field:value[{STRUCT}].type_url error:field not present"),
    ],
)
def test_an_extension_without_a_type_has_none(config: protos.AnyProto, problem: str) -> None:
    problems = ValidationErrors()
    assert unpack(config, problems) is None and problems.texts == (problem,)


@pytest.mark.parametrize("type_url", ["my.Policy", T + "my.Policy", "a/b/my.Policy"])
def test_a_typed_structs_type_is_what_follows_the_last_slash_if_there_is_one(type_url: str) -> None:
    struct, problems = protos.TypedStruct(type_url=type_url), ValidationErrors()
    found = unpack(packed(T + STRUCT, struct.SerializeToString()), problems)
    assert found is not None and (found.type_name, problems.texts) == ("my.Policy", ())


@pytest.mark.parametrize("name", LB_POLICIES)
def test_a_policy_that_cannot_be_read_is_refused(name: str) -> None:
    message, problems = protos.Cluster().load_balancing_policy, ValidationErrors()
    message.policies.add().typed_extension_config.typed_config.CopyFrom(packed(T + name))
    assert parse_load_balancing_policy(message, WrapperPolicy(ParseContext()), problems) is None
    place = f"policies[0].typed_extension_config.typed_config.value[{name}]"
    assert problems.texts == (f"field:{place} error:can't decode {name.rpartition('.')[2]} LB policy config",)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("envoy.config.route.v3.FilterConfig", "could not parse FilterConfig"),
        (
            "envoy.extensions.filters.http.fault.v3.HTTPFault",
            "could not parse fault injection filter config",
        ),
        (
            "envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute",
            "could not parse stateful session filter override config",
        ),
    ],
)
def test_an_override_that_cannot_be_read_is_refused(name: str, problem: str) -> None:
    problems = ValidationErrors()
    assert parse_filter_overrides({"f": packed(T + name)}, HTTP_FILTERS, problems) == {}
    assert problems.texts == (f"field:typed_per_filter_config[f].value[{name}] error:{problem}",)
