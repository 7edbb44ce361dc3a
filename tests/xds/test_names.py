"""From a target to its Listener's name."""

from __future__ import annotations

import pytest

from trxds.core.status import BootstrapError
from trxds.xds.bootstrap import Authority, Bootstrap, ServerConfig
from trxds.xds.resource_names import Target, authority_of, canonical, check_type, parse_target

BOOTSTRAP = Bootstrap(
    servers=(ServerConfig("plane:1"),),
    authorities={"fleet": Authority("xdstp://fleet/envoy.config.listener.v3.Listener/%s")},
)


@pytest.mark.parametrize("target", ["xds:///shop", "xds:shop", "xds:/shop"])
def test_a_target_without_authority_asks_for_its_own_name(target: str) -> None:
    assert parse_target(target, BOOTSTRAP) == Target(listener="shop", authority="shop")


@pytest.mark.parametrize(
    ("target", "listener"),
    [("xds:////shop", "/shop"), ("xds://fleet//shop", "xdstp://fleet/envoy.config.listener.v3.Listener//shop")],
)
def test_a_second_slash_belongs_to_the_name(target: str, listener: str) -> None:
    assert parse_target(target, BOOTSTRAP) == Target(listener=listener, authority="%2Fshop")


@pytest.mark.parametrize("target", ["xds:///shop?x=1", "xds:///shop#eu", "xds:shop?x#y", "xds:///shop#y?x"])
def test_query_and_fragment_of_a_target_are_no_part_of_the_name(target: str) -> None:
    assert parse_target(target, BOOTSTRAP) == Target(listener="shop", authority="shop")


def test_an_authority_has_its_own_template() -> None:
    assert parse_target("xds://fleet/shop", BOOTSTRAP) == Target(
        listener="xdstp://fleet/envoy.config.listener.v3.Listener/shop", authority="shop"
    )


def test_the_default_template_shapes_the_listener_and_not_the_authority() -> None:
    bootstrap = Bootstrap(servers=BOOTSTRAP.servers, listener_template="mesh/%s?x=%s")
    assert parse_target("xds:///shop", bootstrap) == Target(listener="mesh/shop?x=shop", authority="shop")


def test_a_name_in_an_xdstp_template_is_percent_coded_but_for_its_slashes() -> None:
    target = parse_target("xds://fleet/a b/c%3F", BOOTSTRAP)
    assert target.listener == "xdstp://fleet/envoy.config.listener.v3.Listener/a%20b/c%3F"


def test_a_name_in_an_xdstp_template_keeps_what_the_path_of_a_uri_may_have() -> None:
    assert parse_target("xds://fleet/a:80/b@c;d", BOOTSTRAP).listener.endswith("/a:80/b@c;d")


def test_a_name_in_another_template_is_left_as_it_is() -> None:
    assert parse_target("xds:///a%20b", BOOTSTRAP).listener == "a b"


def test_an_authority_header_has_no_bare_slash() -> None:
    assert parse_target("xds:///team/shop:80", BOOTSTRAP).authority == "team%2Fshop:80"


@pytest.mark.parametrize("target", ["xds:", "xds:///", "xds://fleet", "xds://fleet/", "xds:///shop/", "xds:///?x"])
def test_a_target_must_name_a_service(target: str) -> None:
    with pytest.raises(ValueError, match="names no service; write xds:///NAME"):
        parse_target(target, BOOTSTRAP)


def test_a_target_with_half_a_character_is_refused() -> None:
    with pytest.raises(ValueError, match=r"target 'xds:///a\\ud800' has half of a surrogate pair; write whole"):
        parse_target("xds:///a\ud800", BOOTSTRAP)


def test_another_scheme_is_refused() -> None:
    with pytest.raises(ValueError, match="'dns:///shop' does not have the scheme xds"):
        parse_target("dns:///shop", BOOTSTRAP)


def test_an_authority_that_is_not_configured_is_named_with_those_that_are() -> None:
    with pytest.raises(BootstrapError) as caught:
        parse_target("xds://flet/shop", BOOTSTRAP)
    assert str(caught.value) == (
        "target 'xds://flet/shop': authority 'flet' is not in the bootstrap's authorities ('fleet'); "
        "add it there or write xds:///shop"
    )


@pytest.mark.parametrize(
    ("name", "authority"),
    [
        ("shop", None),
        ("xdstp://fleet/envoy.config.cluster.v3.Cluster/cart", "fleet"),
        ("xdstp:///x", ""),
        ("xdstp://fleet?a=b/c", "fleet"),
        ("xdstp://fleet%2Feu/envoy.config.cluster.v3.Cluster/cart", "fleet/eu"),
    ],
)
def test_an_xdstp_resource_name_has_its_authority(name: str, authority: str | None) -> None:
    assert authority_of(name) == authority


@pytest.mark.parametrize(
    ("name", "spelt"),
    [
        ("shop?b=1&a=2", "shop?b=1&a=2"),
        ("xdstp://f/T/x", "xdstp://f/T/x"),
        ("xdstp://f/T/x?b=1&a=2", "xdstp://f/T/x?a=2&b=1"),
        ("xdstp://f/T/x?a=1&b=2&a=3", "xdstp://f/T/x?a=3&b=2"),
        ("xdstp://f/T/x?b&a=", "xdstp://f/T/x?a=&b"),
        ("xdstp://f/T/x?", "xdstp://f/T/x"),
        ("xdstp://f/T/x?b=1&a=2#frag?b&a", "xdstp://f/T/x?a=2&b=1#frag?b&a"),
    ],
)
def test_a_resource_name_has_one_canonical_spelling(name: str, spelt: str) -> None:
    assert canonical(name) == spelt
    assert canonical(spelt) == spelt


@pytest.mark.parametrize(
    ("name", "right"),
    [("cart", True), ("xdstp://f/T/cart", True), ("xdstp://f/U/cart", False), ("xdstp://f", False), ("xdstp:x", False)],
)
def test_an_xdstp_name_has_its_type(name: str, right: bool) -> None:
    assert (check_type(name, "T") is None) is right
