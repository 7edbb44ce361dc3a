"""Actions of routes: what they become as values, and plugins, which routes may name in vain."""

from __future__ import annotations

from typing import Any

import pytest
from support.route_documents import ANY_PATH, T, only_route, routes, to, weighted

from trxds.core.status import StatusCode
from trxds.resources.experiments import Experiments
from trxds.resources.hash_policy import ChannelIdHash, HeaderHash
from trxds.resources.regex import Regex, Rewrite
from trxds.resources.retry_policy import RetryPolicy
from trxds.resources.route_action import RouteAction, WeightedCluster
from trxds.resources.types import RDS, ParseContext

# -- actions


def action_of(read: Any, entry: dict[str, Any], context: ParseContext | None = None, **host: Any) -> RouteAction:
    action = only_route(read(RDS, routes(entry, **host), context).value).action
    assert action is not None
    return action


def test_clusters_of_weight_0_are_left_out(read: Any) -> None:
    entry = weighted({"name": "a", "weight": 3}, {"name": "b", "weight": 0}, {"name": "c", "weight": 1})
    assert action_of(read, entry).clusters == (WeightedCluster("a", 3), WeightedCluster("c", 1))


def test_weights_of_clusters_may_sum_to_the_largest_number_of_32_bits(read: Any) -> None:
    entry = weighted({"name": "a", "weight": 2**32 - 2}, {"name": "b", "weight": 1})
    assert action_of(read, entry).clusters == (WeightedCluster("a", 2**32 - 2), WeightedCluster("b", 1))


def test_limits_keep_unset_and_zero_apart(read: Any) -> None:
    action = action_of(read, to(max_stream_duration={"max_stream_duration": "0s"}))
    assert (action.max_stream_duration, action.grpc_timeout_header_max) == (0.0, None)
    action = action_of(
        read, to(max_stream_duration={"grpc_timeout_header_max": "1.5s"}, timeout="15s", max_grpc_timeout="0s")
    )
    assert (action.max_stream_duration, action.grpc_timeout_header_max) == (None, 1.5)
    assert (action.timeout, action.max_grpc_timeout) == (15.0, 0.0)


def test_a_wrong_max_stream_duration_does_not_count_beside_a_grpc_timeout_header_max(read: Any) -> None:
    limits = {"grpc_timeout_header_max": "1.5s", "max_stream_duration": "-5s"}
    action = action_of(read, to(max_stream_duration=limits))
    assert (action.max_stream_duration, action.grpc_timeout_header_max) == (None, 1.5)


def test_hash_policies_keep_their_order_and_leave_out_the_unknown(read: Any) -> None:
    entry = to(
        hash_policy=[
            {"header": {"header_name": "User", "regex_rewrite": {"pattern": {"regex": "x"}, "substitution": "y"}}},
            {"cookie": {"name": "c"}, "terminal": True},
            {"filter_state": {"key": "io.grpc.channel_id"}, "terminal": True},
            {"filter_state": {"key": "other"}},
        ]
    )
    assert action_of(read, entry).hash_policies == (
        HeaderHash("user", Rewrite(Regex("x"), "y")),
        ChannelIdHash(terminal=True),
    )


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"retry_on": "unavailable"}, RetryPolicy(frozenset({StatusCode.UNAVAILABLE}), 2, 0.025, 0.25)),
        (
            {"retry_on": "5xx, Cancelled,internal", "num_retries": 9},
            RetryPolicy(frozenset({StatusCode.CANCELLED, StatusCode.INTERNAL}), 10, 0.025, 0.25),
        ),
        (
            {"retry_on": "resource-exhausted", "retry_back_off": {"base_interval": "0.0001s"}},
            RetryPolicy(frozenset({StatusCode.RESOURCE_EXHAUSTED}), 2, 0.001, 0.01),
        ),
        (
            {"retry_on": "deadline-exceeded", "retry_back_off": {"base_interval": "1s", "max_interval": "3s"}},
            RetryPolicy(frozenset({StatusCode.DEADLINE_EXCEEDED}), 2, 1.0, 3.0),
        ),
        (
            {"retry_on": "unavailable", "retry_back_off": {"base_interval": "2s", "max_interval": "2s"}},
            RetryPolicy(frozenset({StatusCode.UNAVAILABLE}), 2, 2.0, 2.0),
        ),
        ({"retry_on": "5xx,reset"}, None),
        ({}, None),
    ],
)
def test_retry_policies_become_values(read: Any, policy: dict[str, Any], expected: RetryPolicy | None) -> None:
    assert action_of(read, to(retry_policy=policy)).retry_policy == expected


def test_a_route_without_a_retry_policy_has_its_virtual_hosts(read: Any) -> None:
    of_host = {"retry_on": "internal"}
    inherited = action_of(read, to(), retry_policy=of_host).retry_policy
    assert inherited is not None and inherited.codes == {StatusCode.INTERNAL}
    own = action_of(read, to(retry_policy={"retry_on": "cancelled"}), retry_policy=of_host).retry_policy
    assert own is not None and own.codes == {StatusCode.CANCELLED}
    assert action_of(read, to(retry_policy={}), retry_policy=of_host).retry_policy is None


def test_auto_host_rewrite_is_read_from_a_trusted_server_only(read: Any) -> None:
    entry = to(auto_host_rewrite=True)
    assert not action_of(read, entry).auto_host_rewrite
    rewrite = Experiments(authority_rewrite=True)
    trusted = ParseContext(server_features=frozenset({"trusted_xds_server"}), experiments=rewrite)
    assert action_of(read, entry, trusted).auto_host_rewrite
    assert not action_of(read, to(), trusted).auto_host_rewrite


# -- cluster specifier plugins, of which there are none


def with_plugin(optional: bool, **extension: Any) -> dict[str, Any]:
    plugin = {
        "extension": {"name": "p", "typed_config": {"@type": T + "google.protobuf.Duration", "value": "1s"}},
        "is_optional": optional,
    }
    plugin["extension"].update(extension)  # type: ignore[attr-defined]
    entry = {"match": ANY_PATH, "route": {"cluster_specifier_plugin": "p"}}
    return {**routes(entry, to("other")), "cluster_specifier_plugins": [plugin]}


def test_routes_to_an_optional_plugin_are_skipped(read: Any) -> None:
    parsed = read(RDS, with_plugin(True))
    assert only_route(parsed.value).action == RouteAction((WeightedCluster("other"),))


def test_a_plugin_that_is_not_optional_is_refused(read: Any) -> None:
    assert read(RDS, with_plugin(False)).errors == (
        "field:cluster_specifier_plugins[0].extension.typed_config.value[google.protobuf.Duration] "
        "error:unsupported ClusterSpecifierPlugin type",
    )


def test_a_plugin_without_a_typed_config_is_refused(read: Any) -> None:
    resource = with_plugin(False)
    del resource["cluster_specifier_plugins"][0]["extension"]["typed_config"]
    missing = "field:cluster_specifier_plugins[0].extension.typed_config error:field not present"
    assert missing in read(RDS, resource).errors


def test_two_plugins_have_two_names_and_each_has_its_extension(read: Any) -> None:
    resource = with_plugin(True)
    resource["cluster_specifier_plugins"] = [*resource["cluster_specifier_plugins"] * 2, {"is_optional": True}]
    assert read(RDS, resource).errors == (
        'field:cluster_specifier_plugins[1].extension.name error:duplicate name "p"',
        "field:cluster_specifier_plugins[2].extension error:field not present",
    )
