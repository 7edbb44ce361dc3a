"""The stateful session filter by values: a request's metadata in, override and Set-Cookie out."""

import math

import pytest

from trxds.affinity.cookie import encode
from trxds.affinity.filter import StatefulSession
from trxds.config.routes import BoundCluster, BoundRoute
from trxds.ground.metadata import Metadata
from trxds.lb.pick import PickArgs
from trxds.resources.filters import CookieConfig
from trxds.resources.matchers import Prefix
from trxds.resources.route import Route, RouteAction, RouteMatch, WeightedCluster


def call(cookie=None, cluster="a", routed=("a", "b"), path="/shop.Cart/Add"):
    clusters = tuple(WeightedCluster(name) for name in routed)
    route = Route(RouteMatch(Prefix("")), RouteAction(clusters))
    bound = BoundRoute(route, math.inf, tuple(BoundCluster(name, ()) for name in routed), (1, 2))
    metadata = Metadata([("cookie", f"s={cookie}")]) if cookie else Metadata()
    return PickArgs(path, metadata, bound, cluster)


async def start(args, actual="1.1.1.1:1", **config):
    """What the filter adds to the response, when the pick chose `actual`."""
    respond = await StatefulSession(CookieConfig("s", **config)).start(args)
    if respond is None:
        return None
    args.override.actual = actual
    return respond(Metadata([("x", "1")]))


def cookie_for(address, cluster):
    return ("set-cookie", f"s={encode(address, cluster)}; HttpOnly")


async def test_without_a_cookie_the_host_used_is_set():
    args = call()
    assert await start(args) == (("x", "1"), cookie_for("1.1.1.1:1", "a"))
    assert args.override.addresses == ()


async def test_a_cookie_that_was_honoured_is_not_set_again():
    assert await start(call(encode("1.1.1.1:1", "a"))) == (("x", "1"),)


async def test_the_cookies_addresses_become_the_override():
    args = call(encode("1.1.1.1:1,2.2.2.2:2", "a"))
    await start(args)
    assert args.override.addresses == ("1.1.1.1:1", "2.2.2.2:2")


async def test_another_host_is_set():
    assert cookie_for("3.3.3.3:3", "a") in await start(call(encode("1.1.1.1:1", "a")), actual="3.3.3.3:3")


async def test_the_same_addresses_in_another_order_are_set():
    args = call(encode("1.1.1.1:1,2.2.2.2:2", "a"))
    assert cookie_for("2.2.2.2:2,1.1.1.1:1", "a") in await start(args, actual="2.2.2.2:2,1.1.1.1:1")


async def test_the_cookies_cluster_replaces_the_drawn_one():
    args = call(encode("1.1.1.1:1", "b"))
    assert await start(args) == (("x", "1"),)
    assert args.cluster == "b"


async def test_a_cluster_that_is_not_in_the_route_is_ignored_and_the_host_is_not():
    args = call(encode("1.1.1.1:1", "c"))
    assert cookie_for("1.1.1.1:1", "a") in await start(args)
    assert args.cluster == "a"
    assert args.override.addresses == ("1.1.1.1:1",)


async def test_a_cookie_without_a_cluster_is_replaced_by_one_that_names_it():
    args = call(encode("1.1.1.1:1", "").rstrip("="))
    assert cookie_for("1.1.1.1:1", "a") in await start(args)


@pytest.mark.parametrize("path", ["/other", "/shop.Cart/Ad"])
async def test_outside_its_path_it_does_nothing(path):
    args = call(encode("1.1.1.1:1", "a"))
    assert await start(args, path=path) is None
    assert args.override is None


async def test_garbage_counts_as_no_cookie():
    assert cookie_for("1.1.1.1:1", "a") in await start(call("!!!"))


async def test_a_host_that_is_in_no_table_is_not_set():
    assert await start(call(), actual="") == (("x", "1"),)
