"""The service config: what is read from it, and that every mistake is named with its place and remedy (A6, A24)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trxds.core.status import StatusCode
from trxds.lb.balancing_config import make_parser
from trxds.lb.configs import OutlierDetectionConfig
from trxds.resolver.method_config import HedgingPolicy, MethodConfig
from trxds.resolver.service_config import RetryThrottling, ServiceConfig
from trxds.resolver.service_config import parse_service_config as parse
from trxds.resources.lb_policy import CustomPolicy, RandomSubsetting
from trxds.resources.leaf_policy import (
    ClientSideWeightedRoundRobin,
    LeastRequest,
    PickFirst,
    RingHash,
    RoundRobin,
)
from trxds.resources.outlier_detection import FailurePercentage, OutlierDetectionSettings, SuccessRate
from trxds.resources.retry_policy import RetryPolicy

RETRY = {
    "maxAttempts": 3,
    "initialBackoff": "0.1s",
    "maxBackoff": "1s",
    "backoffMultiplier": 2.5,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
HEDGING = {"maxAttempts": 3, "hedgingDelay": "0.5s", "nonFatalStatusCodes": ["unavailable", 10]}
CART = [{"service": "shop.Cart"}]


def parse_service_config(document: Any, custom: Any = None) -> ServiceConfig:
    """With the load balancing room's reader, as a channel does."""
    return parse(document, make_parser(custom or {}))


def method(**fields: Any) -> MethodConfig:
    return parse_service_config({"methodConfig": [{"name": CART, **fields}]}).method("/shop.Cart/Add")


def problems(document: Any) -> list[str]:
    with pytest.raises(ValueError) as caught:
        parse_service_config(document)
    return str(caught.value).removeprefix("service config: ").split("\nservice config: ")


def method_problems(**fields: Any) -> list[str]:
    return problems({"methodConfig": [{"name": CART, **fields}]})


def balanced(*policies: Any, **custom: Any) -> Any:
    return parse_service_config({"loadBalancingConfig": list(policies)}, custom).lb_policy


def balancing_problems(*policies: Any) -> list[str]:
    return problems({"loadBalancingConfig": list(policies)})


def test_an_empty_service_config_sets_nothing() -> None:
    assert parse_service_config("{}") == ServiceConfig()
    assert parse_service_config("{}").method("/shop.Cart/Add") == MethodConfig()


def test_everything_about_a_method_is_read() -> None:
    assert method(
        timeout="1.5s",
        waitForReady=True,
        maxRequestMessageBytes=1024,
        maxResponseMessageBytes="2048",
        retryPolicy=RETRY,
    ) == MethodConfig(1.5, True, 1024, 2048, RetryPolicy(frozenset({StatusCode.UNAVAILABLE}), 3, 0.1, 1.0, 2.5))


def test_a_hedging_policy_is_read_with_codes_by_name_and_by_number() -> None:
    codes = frozenset({StatusCode.UNAVAILABLE, StatusCode.ABORTED})
    assert method(hedgingPolicy=HEDGING).hedging == HedgingPolicy(3, 0.5, codes)
    assert method(hedgingPolicy={"maxAttempts": 2}).hedging == HedgingPolicy(2, 0.0, frozenset())


def test_the_method_goes_before_the_service_and_that_before_the_default() -> None:
    named = {"1s": {}, "2s": {"service": "shop.Cart"}, "3s": {"service": "shop.Cart", "method": "Add"}}
    config = parse_service_config({"methodConfig": [{"name": [n], "timeout": t} for t, n in named.items()]})
    asked = ("/shop.Cart/Add", "/shop.Cart/Watch", "/shop.Stock/Add")
    assert [config.method(path).timeout for path in asked] == [3.0, 2.0, 1.0]


def test_entries_of_a_method_are_not_merged() -> None:
    config = parse_service_config(
        {
            "methodConfig": [
                {"name": [{}], "timeout": "1s"},
                {"name": [{"service": "shop.Cart", "method": "Add"}], "waitForReady": False},
            ]
        }
    )
    assert config.method("/shop.Cart/Add") == MethodConfig(wait_for_ready=False)


def test_the_throttle_counts_three_decimals() -> None:
    config = parse_service_config({"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1239}})
    assert config.throttling == RetryThrottling(10, 0.123)


def test_a_success_may_return_all_tokens_however_large_the_ratio_is() -> None:
    config = parse_service_config({"retryThrottling": {"maxTokens": 10, "tokenRatio": 1e306}})
    assert config.throttling == RetryThrottling(10, 1000)


def test_unknown_fields_of_a_service_config_are_ignored() -> None:
    assert parse_service_config({"fromTheFuture": 1}) == ServiceConfig()


def max_connections(number):
    return {"maxConnectionsPerSubchannel": number}


def test_a_health_check_config_is_noted() -> None:
    assert parse_service_config({"healthCheckConfig": {"serviceName": ""}}).health_check_service == ""
    assert parse_service_config({"healthCheckConfig": {}}).health_check_service is None


@pytest.mark.parametrize(
    ("scaling", "number"),
    [
        ({}, None),
        (max_connections(3), 3),
        (max_connections("3"), 3),
        (max_connections(0), None),
        (max_connections(None), None),
    ],
)
def test_the_connections_of_a_host_are_noted(scaling, number) -> None:
    assert parse_service_config({"connectionScaling": scaling}).max_connections == number


@pytest.mark.parametrize(
    "scaling",
    [max_connections(-1), max_connections(1.5), max_connections(2**32), max_connections("many"), max_connections([3])],
)
def test_a_number_of_connections_that_is_none_is_refused_with_its_place(scaling) -> None:
    with pytest.raises(ValueError, match=r"connectionScaling\.maxConnectionsPerSubchannel"):
        parse_service_config({"connectionScaling": scaling})


def test_a_health_check_of_half_a_character_is_refused_with_its_place():
    with pytest.raises(ValueError, match=r"healthCheckConfig\.serviceName"):
        parse_service_config('{"healthCheckConfig": {"serviceName": "\\ud800"}}')


@pytest.mark.parametrize(
    ("policy", "value"),
    [
        ({"round_robin": {}}, RoundRobin()),
        ({"pick_first": {"shuffleAddressList": True}}, PickFirst(True)),
        ({"ring_hash_experimental": {"minRingSize": 8, "maxRingSize": 16}}, RingHash(8, 16)),
        ({"ring_hash_experimental": {"requestHashHeader": "X-User"}}, RingHash(1024, 4096, "x-user")),
        ({"least_request_experimental": {"choiceCount": 99}}, LeastRequest(10)),
        (
            {"weighted_round_robin": {"blackoutPeriod": "5s", "enableOobLoadReport": True}},
            ClientSideWeightedRoundRobin(5.0, reporting_period=10.0),
        ),
        (
            {"random_subsetting_experimental": {"subsetSize": 3, "childPolicy": [{"round_robin": {}}]}},
            RandomSubsetting(3, RoundRobin()),
        ),
        (
            {
                "outlier_detection_experimental": {
                    "interval": "1s",
                    "baseEjectionTime": "400s",
                    "successRateEjection": {"stdevFactor": 1000},
                    "failurePercentageEjection": {"threshold": 50, "minimumHosts": 2},
                    "childPolicy": [{"round_robin": {}}],
                }
            },
            OutlierDetectionConfig(
                OutlierDetectionSettings(
                    1.0, 400.0, 400.0, 10, SuccessRate(1000), FailurePercentage(50, minimum_hosts=2)
                ),
                RoundRobin(),
            ),
        ),
        (
            {"outlier_detection_experimental": {"childPolicy": [{"pick_first": {}}]}},
            OutlierDetectionConfig(None, PickFirst()),
        ),
    ],
)
def test_policies_are_read_as_from_a_resource(policy: Any, value: Any) -> None:
    assert balanced(policy) == value


def test_the_first_policy_that_is_known_is_taken() -> None:
    assert balanced({"from_the_future": {"a": 1}}, {"round_robin": {}}, {"pick_first": {}}) == RoundRobin()


def test_a_policy_of_the_users_own_reads_its_settings() -> None:
    assert balanced({"mine": {"a": 1}}, mine=dict) == CustomPolicy("mine", {"a": 1})


def test_an_exception_of_a_custom_policys_parser_is_a_problem_of_the_service_config() -> None:
    with pytest.raises(ValueError, match=r"loadBalancingConfig\[0\]\['mine'\]: KeyError: 'a'"):
        balanced({"mine": {}}, mine=lambda settings: settings["a"])


def test_the_older_field_names_a_policy_in_any_case_and_yields_to_the_newer() -> None:
    assert parse_service_config({"loadBalancingPolicy": "ROUND_ROBIN"}).lb_policy == RoundRobin()
    both = {"loadBalancingPolicy": "round_robin", "loadBalancingConfig": [{"pick_first": {}}]}
    assert parse_service_config(both).lb_policy == PickFirst()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"timeout": 3}, '.timeout: is a number; write a string such as "600s"'),
        ({"waitForReady": "yes"}, ".waitForReady: is a string; write true or false"),
        ({"maxRequestMessageBytes": -1}, ".maxRequestMessageBytes: is -1; write a whole number from 0 to 4294967295"),
        ({"retryPolicy": []}, ".retryPolicy: is a list; write an object"),
        (
            {"retryPolicy": {**RETRY, "maxAttempts": 1}},
            ".retryPolicy.maxAttempts: must be at least 2, including the first attempt",
        ),
        ({"retryPolicy": {**RETRY, "initialBackoff": "0s"}}, ".retryPolicy.initialBackoff: is '0s'; write seconds"),
        ({"retryPolicy": {**RETRY, "maxBackoff": None}}, '.retryPolicy.maxBackoff: is missing; write for example "1s"'),
        ({"retryPolicy": {**RETRY, "backoffMultiplier": 0}}, ".retryPolicy.backoffMultiplier: must be more than 0"),
        (
            {"retryPolicy": {**RETRY, "retryableStatusCodes": []}},
            ".retryPolicy.retryableStatusCodes: needs at least one status code",
        ),
        (
            {"retryPolicy": {**RETRY, "retryableStatusCodes": ["GREEN"]}},
            ".retryPolicy.retryableStatusCodes[0]: is 'GREEN', which is no status code",
        ),
        ({"hedgingPolicy": {}}, ".hedgingPolicy.maxAttempts: must be at least 2"),
        ({"hedgingPolicy": {**HEDGING, "nonFatalStatusCodes": [17]}}, ".hedgingPolicy.nonFatalStatusCodes[0]: is 17"),
        ({"retryPolicy": RETRY, "hedgingPolicy": HEDGING}, ".hedgingPolicy: is set beside retryPolicy"),
        ({"name": [None]}, ".name[0]: is null"),
        ({"name": [{"method": "Add"}]}, ".name[0]: has a method and no service"),
        ({"name": [{}, {"service": ""}]}, ".name[1]: is in another entry too"),
    ],
)
def test_a_mistake_of_a_method_is_told_with_its_place(fields: Any, problem: str) -> None:
    assert [found[: len(problem) + len("methodConfig[0]")] for found in method_problems(**fields)] == [
        f"methodConfig[0]{problem}"
    ]


def test_policies_of_another_type_are_not_called_missing() -> None:
    assert problems({"loadBalancingConfig": "round_robin"}) == [
        'loadBalancingConfig: is a string; write for example [{"round_robin": {}}]'
    ]


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ({"a": {}}, "loadBalancingConfig: names no policy that is known here: a; known are "),
        ({}, "loadBalancingConfig[0]: has 0 members"),
        ({"pick_first": 3}, "loadBalancingConfig[0]['pick_first']: is a number; write an object"),
        (
            {"ring_hash_experimental": {"minRingSize": 0}},
            "loadBalancingConfig[0]['ring_hash_experimental'].minRingSize",
        ),
        (
            {"ring_hash_experimental": {"minRingSize": 9, "maxRingSize": 8}},
            "loadBalancingConfig[0]['ring_hash_experimental'].minRingSize: must not be more than maxRingSize",
        ),
        *(
            (
                {"ring_hash_experimental": {"requestHashHeader": name}},
                f"loadBalancingConfig[0]['ring_hash_experimental'].requestHashHeader: is {name!r}; write the name of",
            )
            for name in ("a b", "x-user-bin", ":path")
        ),
        (
            {"least_request_experimental": {"choiceCount": 1}},
            "loadBalancingConfig[0]['least_request_experimental'].choiceCount: must be at least 2",
        ),
        (
            {"outlier_detection_experimental": {"maxEjectionPercent": 101, "childPolicy": [{"round_robin": {}}]}},
            "loadBalancingConfig[0]['outlier_detection_experimental'].maxEjectionPercent: must be a percentage",
        ),
        (
            {"random_subsetting_experimental": {"subsetSize": 0, "childPolicy": [{"round_robin": {}}]}},
            "loadBalancingConfig[0]['random_subsetting_experimental'].subsetSize: must be at least 1",
        ),
        (
            {"weighted_round_robin": {"errorUtilizationPenalty": -1}},
            "loadBalancingConfig[0]['weighted_round_robin'].errorUtilizationPenalty: must not be less than 0",
        ),
        (
            {"outlier_detection_experimental": {"failurePercentageEjection": {}}},
            "loadBalancingConfig[0]['outlier_detection_experimental'].childPolicy: needs at least one policy",
        ),
    ],
)
def test_a_mistake_of_a_policy_is_told_with_its_place(policy: Any, problem: str) -> None:
    assert [found[: len(problem)] for found in balancing_problems(policy)] == [problem]


@pytest.mark.parametrize("tokens", [0, -1, 2.5, 1001, "many"])
def test_the_throttle_has_a_whole_number_of_tokens_from_1_to_1000(tokens: Any) -> None:
    assert "retryThrottling.maxTokens: must be a whole number, more than 0 and at most 1000" in problems(
        {"retryThrottling": {"maxTokens": tokens, "tokenRatio": 1}}
    )


@pytest.mark.parametrize(("tokens", "ratio"), [(1, 1000), (1000, 0.001)])
def test_the_throttle_may_have_the_least_and_the_greatest_numbers(tokens: int, ratio: float) -> None:
    config = parse_service_config({"retryThrottling": {"maxTokens": tokens, "tokenRatio": ratio}})
    assert config.throttling == RetryThrottling(tokens, ratio)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"methodConfig": [5]}, "methodConfig[0]: is a number; write an object"),
        ({"methodConfig": [{"name": ["pkg.Service"]}]}, "methodConfig[0].name[0]: is a string; write an object"),
        ({"healthCheckConfig": []}, "healthCheckConfig: is a list; write an object"),
        ({"connectionScaling": 3}, "connectionScaling: is a number; write an object"),
    ],
)
def test_what_should_be_an_object_is_told_with_its_place(document: Any, problem: str) -> None:
    assert problems(document) == [problem]


@pytest.mark.parametrize("code", [True, 1.5, None])
def test_a_status_code_is_a_name_or_a_whole_number(code: Any) -> None:
    [problem] = method_problems(retryPolicy={**RETRY, "retryableStatusCodes": [code]})
    assert problem.startswith(f"methodConfig[0].retryPolicy.retryableStatusCodes[0]: is {code!r}, which is no status")


def test_an_empty_method_config_leaves_everything_to_the_call() -> None:
    assert method() == MethodConfig()


def test_a_method_may_refuse_to_wait_for_ready_and_to_take_any_byte() -> None:
    config = method(waitForReady=False, maxRequestMessageBytes=0)
    assert (config.wait_for_ready, config.max_request_size) == (False, 0)


@pytest.mark.parametrize(("name", "settings"), [("retryPolicy", RETRY), ("hedgingPolicy", HEDGING)])
def test_either_policy_may_limit_the_time_of_an_attempt(name: str, settings: Any) -> None:
    assert method(**{name: settings}).attempt_timeout is None
    assert method(**{name: {**settings, "perAttemptRecvTimeout": "2s"}}).attempt_timeout == 2


def test_all_mistakes_of_a_service_config_are_reported_at_once() -> None:
    document = {"methodConfig": [{"timeout": "x"}], "retryThrottling": {}, "loadBalancingPolicy": "grpclb"}
    assert [found.partition(":")[0] for found in problems(json.dumps(document))] == [
        "methodConfig[0].timeout",
        "retryThrottling.maxTokens",
        "retryThrottling.tokenRatio",
        "loadBalancingPolicy",
    ]


def test_a_member_that_a_text_has_twice_is_a_mistake() -> None:
    text = json.dumps({"methodConfig": [{"timeout": "1s"}]}).replace('"1s"', '"1s", "timeout": "2s"')
    assert problems(text) == ["methodConfig[0]: has 'timeout' more than once; keep one of them"]


def test_a_mapping_may_be_of_any_depth_where_nothing_is_read() -> None:
    unknown: dict[str, Any] = {}
    unknown["itself"] = unknown
    assert parse({"unknown": unknown}) == ServiceConfig()


def test_a_text_that_is_no_json_is_told_with_its_line() -> None:
    assert problems('{\n"a": }')[0].startswith("no valid JSON at line 2, column 6")
    assert problems("[]") == ['top level: is a list; write an object, with "methodConfig" for example']
