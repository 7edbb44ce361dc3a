"""`trxds plane` warns of names in its file that lead nowhere: each resource is valid, and calls fail all the same."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import trio

from trxds.cli.control_plane import read_for_clients, serve_file
from trxds.testing.resources import aggregate, cluster, endpoints, listener, locality, logical_dns, route, routes

DOCUMENT = Path(__file__).parents[2] / "docs/operating.md"

SHOP = listener("shop", routes="r")
HOSTS = locality("127.0.0.1:1")


def remarks_of(*found: dict[str, Any]) -> list[str]:
    reading = read_for_clients(json.dumps(found))
    assert not reading.problems
    return [str(remark).partition("warning: ")[2] for remark in reading.remarks]


def test_a_file_whose_names_all_lead_somewhere_has_no_remarks() -> None:
    web = [SHOP, routes("r", route("cart")), cluster("cart"), endpoints("cart", HOSTS)]
    assert remarks_of(*web) == []


def test_a_route_to_a_cluster_that_is_not_there_is_a_warning_with_the_likely_name() -> None:
    (remark,) = remarks_of(routes("r", route("carts")), cluster("cart"))
    assert remark == 'RDS resource "r" routes to CDS resource "carts", which is not in the file; did you mean "cart"?'


def test_the_document_shows_a_warning_as_it_is() -> None:
    (remark,) = remarks_of(routes("shop-routes", route("carts")), cluster("cart"))
    assert f"mesh.yaml: line 28: warning: {remark}\n" in DOCUMENT.read_text("utf-8")


def test_a_missing_cluster_of_many_routes_is_one_warning() -> None:
    assert len(remarks_of(routes("r", route("gone", prefix="/a"), route({"gone": 1, "left": 1})))) == 2


def test_a_missing_cluster_is_named_by_the_line_of_its_route() -> None:
    text = """\
    - '@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration
      name: gone
      virtual_hosts:
      - name: gone
        domains: ['*']
        routes:
        - match: {prefix: ''}
          route:
            weighted_clusters:
              clusters:
              - {name: gone, weight: 1}
    """
    (remark,) = read_for_clients(dedent(text)).remarks
    assert str(remark).startswith('line 11: warning: RDS resource "gone" routes to CDS resource "gone"')


def test_a_listener_without_its_routes_is_a_warning() -> None:
    assert remarks_of(SHOP) == [
        'LDS resource "shop" takes its routes from RDS resource "r", which is not in the file; its calls fail'
    ]


def test_routes_inside_a_listener_are_checked_too() -> None:
    inline = listener("shop", routes="r")
    manager = inline["api_listener"]["api_listener"]
    del manager["rds"]
    manager["route_config"] = {key: value for key, value in routes("r", route("gone")).items() if key != "@type"}
    (remark,) = remarks_of(inline)
    assert remark.startswith('LDS resource "shop" routes to CDS resource "gone"')


def test_a_cluster_whose_endpoints_are_not_in_the_file_is_a_warning() -> None:
    assert remarks_of(routes("r", route("cart")), cluster("cart")) == [
        'cluster "cart" has no endpoints: it takes them from EDS resource "cart", which is not in the file; '
        "its calls fail"
    ]


WEIGHTLESS = {key: value for key, value in HOSTS.items() if key != "load_balancing_weight"}
UNHEALTHY = locality("127.0.0.1:1", health={"127.0.0.1:1": "UNHEALTHY"})


@pytest.mark.parametrize("localities", [[], [locality()], [UNHEALTHY], [WEIGHTLESS]])
def test_a_cluster_whose_endpoints_are_none_or_do_not_count_is_a_warning(localities) -> None:
    (remark,) = remarks_of(routes("r", route("cart")), cluster("cart"), endpoints("cart", *localities))
    assert remark.startswith('EDS resource "cart" has no endpoints that count (healthy, ')


def test_the_clusters_of_an_aggregate_are_checked() -> None:
    found = remarks_of(routes("r", route("all")), aggregate("all", "east", "gone"), cluster("east"))
    assert [each.partition(", which")[0] for each in found] == [
        'aggregate cluster "all" has CDS resource "gone"',
        'cluster "east" has no endpoints: it takes them from EDS resource "east"',
    ]


@pytest.mark.parametrize("unused", [cluster("later"), endpoints("later")])
def test_a_cluster_that_nothing_leads_to_yet_is_no_warning(unused) -> None:
    assert remarks_of(unused) == []


def test_a_dns_cluster_needs_no_endpoints_in_the_file() -> None:
    assert remarks_of(routes("r", route("dns")), logical_dns("dns", "shop.example", 80)) == []


def test_a_name_of_another_authority_is_no_warning() -> None:
    assert remarks_of(routes("r", route("xdstp://other/envoy.config.cluster.v3.Cluster/cart"))) == []


def test_a_cluster_that_clients_refuse_is_not_reported_as_missing() -> None:
    refused = {**cluster("cart"), "lb_policy": "MAGLEV"}
    reading = read_for_clients(json.dumps([routes("r", route("cart")), refused]))
    assert [str(remark).partition(" CDS")[0] for remark in reading.remarks] == ["line 1: clients refuse"]


def test_the_command_prints_its_warnings_and_serves_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_text(json.dumps([routes("r", route("gone"))]), "utf-8")
    said: list[str] = []

    async def serve_for_a_moment() -> None:
        with trio.move_on_after(60) as serving:
            await serve_file(file, 0, lambda line: serving.cancel() if "GRPC_XDS" in line else said.append(line))

    trio.run(serve_for_a_moment)
    warning, serving = said
    assert warning.startswith(f'{file}: line 1: warning: RDS resource "r" routes to CDS resource "gone", which is not')
    assert serving.startswith("serving 1 resource: ")
