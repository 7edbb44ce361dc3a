"""`request_mirror_policies`: what is refused, as by Envoy, and what the policies of a route become."""

from __future__ import annotations

from typing import Any

import pytest

from trxds.resources.request_mirror import MirrorPolicies, RequestMirrorPolicy
from trxds.resources.types import RDS, ParseContext

MIRRORING = ParseContext(mirroring=True)
PLAIN = {"cluster": "shadow"}


def resource(*policies: Any, host: Any = (), config: Any = ()) -> dict[str, Any]:
    """A RouteConfiguration with mirror policies in three places."""
    route = {"match": {"prefix": ""}, "route": {"cluster": "a", "request_mirror_policies": list(policies)}}
    virtual_host = {"name": "vh", "domains": ["*"], "routes": [route], "request_mirror_policies": list(host)}
    return {"name": "routes", "virtual_hosts": [virtual_host], "request_mirror_policies": list(config)}


def mirrors(read: Any, *policies: Any, **places: Any) -> MirrorPolicies:
    return read(RDS, resource(*policies, **places), MIRRORING).value.virtual_hosts[0].routes[0].action.mirrors


def default(**fraction: Any) -> dict[str, Any]:
    return {**PLAIN, "runtime_fraction": {"default_value": fraction}}


REFUSED = {
    "no cluster": ({}, " error:one of cluster and cluster_header must be set"),
    "two clusters": (
        {**PLAIN, "cluster_header": "x"},
        " error:only one of cluster and cluster_header may be set",
    ),
    "a share without a value": (
        {**PLAIN, "runtime_fraction": {"runtime_key": "k"}},
        ".runtime_fraction.default_value error:field not present",
    ),
    "a share of an unknown denominator": (
        default(numerator=1, denominator=7),
        ".runtime_fraction.default_value.denominator error:unknown denominator type",
    ),
    "a bad header": (
        {"cluster_header": "a\nb"},
        ".cluster_header error:has a character that no header may have",
    ),
    "a bad authority": (
        {**PLAIN, "host_rewrite_literal": "a\rb"},
        ".host_rewrite_literal error:has a character that no header may have",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_policy_is_refused_with_its_place(read: Any, case: str) -> None:
    policy, error = REFUSED[case]
    path = "virtual_hosts[0].routes[0].route.request_mirror_policies[1]"
    assert f"field:{path}{error}" in str(read(RDS, resource(PLAIN, policy), MIRRORING).errors)


def test_a_bad_policy_of_a_virtual_host_is_refused_at_its_place(read: Any) -> None:
    error = read(RDS, resource(host=[{}]), MIRRORING).errors
    assert "field:virtual_hosts[0].request_mirror_policies[0] error:" in str(error)


def test_a_bad_policy_of_a_route_configuration_is_refused_at_its_place(read: Any) -> None:
    assert "field:request_mirror_policies[0] error:" in str(read(RDS, resource(config=[{}]), MIRRORING).errors)


@pytest.mark.parametrize("case", REFUSED)
def test_a_client_that_does_not_mirror_ignores_the_field(read: Any, case: str) -> None:
    parsed = read(RDS, resource(REFUSED[case][0], host=[{}], config=[{}]))
    assert not parsed.errors
    assert parsed.value.virtual_hosts[0].routes[0].action.mirrors == ()


def test_the_policies_of_a_route_replace_all_others(read: Any) -> None:
    found = mirrors(read, PLAIN, host=[{"cluster": "of the host"}], config=[{"cluster": "of all"}])
    assert found == (RequestMirrorPolicy("shadow"),)


def test_a_route_without_policies_has_those_of_its_virtual_host(read: Any) -> None:
    found = mirrors(read, host=[{"cluster": "of the host"}], config=[{"cluster": "of all"}])
    assert found == (RequestMirrorPolicy("of the host"),)


def test_a_virtual_host_without_policies_has_those_of_the_route_configuration(read: Any) -> None:
    assert mirrors(read, config=[{"cluster": "of all"}]) == (RequestMirrorPolicy("of all"),)


@pytest.mark.parametrize(
    ("policy", "share"),
    [
        (PLAIN, 1_000_000),
        (default(numerator=25), 250_000),
        (default(numerator=25, denominator="TEN_THOUSAND"), 2_500),
        (default(numerator=25, denominator="MILLION"), 25),
        (default(numerator=200), 1_000_000),
        (default(), 0),
    ],
)
def test_the_share_of_a_policy(read: Any, policy: Any, share: int) -> None:
    assert mirrors(read, policy) == (RequestMirrorPolicy("shadow", "", share),)


def test_the_other_fields_of_a_policy(read: Any) -> None:
    policy = {
        "cluster_header": "X-Mirror",
        "disable_shadow_host_suffix_append": True,
        "host_rewrite_literal": "canary",
        "trace_sampled": True,
        "request_headers_mutations": [{"remove": "secret"}],
    }
    expected = RequestMirrorPolicy("", "x-mirror", 1_000_000, False, "canary", "request_headers_mutations")
    assert mirrors(read, policy) == (expected,)
