"""The session filter has a configuration (A55, A39), and a variable that switches it off.

Most rules are tested by value in tests/resources/test_listener_resource.py. Here are those that
JSON cannot express, and their effects on RPCs.
"""

import pytest
import trio
from support.mesh import Mesh, ask
from support.sessions import answer, hosts, in_cookie, listen, override, session_filter

from trxds import RpcError
from trxds.resources import protos
from trxds.resources.extension import Extension
from trxds.resources.stateful_session import STATEFUL_SESSION
from trxds.resources.types import LDS, RDS, ParseContext
from trxds.resources.validation_errors import ValidationErrors
from trxds.testing import resources as xds

FAULT = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault"
GUARD = "GRPC_EXPERIMENTAL_XDS_ENABLE_OVERRIDE_HOST"


# -- bytes that are none of the message


def broken(resource, type_name):
    """Parse the resource with garbage in place of its message of that type."""
    kind = LDS if "Listener" in resource["@type"] else RDS
    found = protos.from_json(resource).value
    good = next(bytes_of(resource, type_name))
    assert found.count(good) == 1
    return kind.read(packed(kind, found.replace(good, b"\xff" * len(good))), ParseContext())


def bytes_of(node, type_name):
    """Return the serialized messages of that type in a resource in JSON."""
    if isinstance(node, dict):
        if node.get("@type", "").endswith(type_name):
            yield protos.from_json(node).value
        for below in node.values():
            yield from bytes_of(below, type_name)
    elif isinstance(node, list):
        for below in node:
            yield from bytes_of(below, type_name)


def packed(kind, value):
    return protos.AnyProto(type_url=kind.type_url, value=value)


LISTENER = xds.listener("shop", routes="r", filters=[session_filter(state=in_cookie())])
ROUTES = xds.routes("r", {**xds.route("c"), "typed_per_filter_config": override(in_cookie())})


@pytest.mark.parametrize(
    ("resource", "type_name", "error"),
    [
        (LISTENER, ".StatefulSession", "could not parse stateful session filter config"),
        (LISTENER, ".CookieBasedSessionState", "could not parse CookieBasedSessionState"),
        (ROUTES, ".StatefulSessionPerRoute", "could not parse stateful session filter override config"),
    ],
)
def test_undecodable_session_configuration_is_refused(resource, type_name, error):
    (problem,) = broken(resource, type_name).errors
    assert problem.endswith(error)


@pytest.mark.parametrize(
    ("seconds", "nanos", "field"),
    [(-1, 0, "seconds"), (315_576_000_001, 0, "seconds"), (1, -1, "nanos"), (1, 1_000_000_000, "nanos")],
)
def test_a_cookie_ttl_out_of_range_is_refused(seconds, nanos, field):
    state = protos.CookieBasedSessionState()
    state.cookie.name = "c"
    state.cookie.ttl.seconds, state.cookie.ttl.nanos = seconds, nanos
    config = protos.StatefulSession()
    config.session_state.typed_config.Pack(state)
    problems = ValidationErrors()
    STATEFUL_SESSION.parse(Extension("", config.SerializeToString(), problems))
    (problem,) = problems.texts
    assert f".cookie.ttl.{field} error:value must be in the range" in problem


def test_the_name_of_the_session_state_is_ignored():
    def read(name):
        filters = [session_filter(session_state={"name": name, "typed_config": in_cookie()})]
        return LDS.read(protos.from_json(xds.listener("shop", routes="r", filters=filters)), ParseContext())

    assert read("").errors == ()
    assert read("") == read("anything")


# -- scopes


def scoped(**scopes):
    """Return routes with an override in each of these scopes: route, virtual host, weighted cluster."""
    entry = xds.route({"cart": 1})
    resource = xds.routes("routes", entry)
    places = {
        "virtual_host": resource["virtual_hosts"][0],
        "route": entry,
        "cluster": entry["route"]["weighted_clusters"]["clusters"][0],
    }
    for scope, config in scopes.items():
        places[scope]["typed_per_filter_config"] = config
    return resource


OFF = override(disabled=True)


def named(name):
    return override(in_cookie(name))


@pytest.mark.parametrize(
    ("scopes", "cookie"),
    [
        ({}, "listener"),
        ({"virtual_host": named("host")}, "host"),
        ({"virtual_host": named("host"), "route": named("route")}, "route"),
        ({"virtual_host": OFF, "route": named("route"), "cluster": named("cluster")}, "cluster"),
        ({"cluster": OFF}, None),
        ({"virtual_host": OFF}, None),
        ({"route": override()}, None),
        ({"route": override(disabled=False)}, None),
        ({"route": override(stateful_session={})}, None),
        ({"virtual_host": OFF, "cluster": named("cluster")}, "cluster"),
    ],
)
async def test_the_most_specific_session_configuration_wins_entirely(autojump_clock, scopes, cookie):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        listen(mesh, session_filter(state=in_cookie("listener", ttl="9s")))
        mesh.plane.put(scoped(**scopes))
        await trio.sleep(1)
        found = (await answer(channel)).cookies
        assert [text.partition("=")[0] for text in found] == ([cookie] if cookie else [])
        assert any("Max-Age" in text for text in found) == (cookie == "listener"), "nothing is merged"


async def test_a_disabled_session_filter_runs_where_an_override_enables_it(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        listen(mesh, {**session_filter(state=in_cookie()), "disabled": True})
        mesh.route({**xds.route("cart", prefix="/on/"), "typed_per_filter_config": named("session")}, "cart")
        await trio.sleep(1)
        assert (await answer(channel)).cookies == []
        assert (await answer(channel, path="/on/m")).cookies


# -- the guard


@pytest.fixture
def off(monkeypatch):
    monkeypatch.setenv(GUARD, "false")


@pytest.mark.usefixtures("off")
class TestSwitchedOff:
    async def test_a_session_filter_switched_off_is_refused_as_unknown(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(RpcError, match="unsupported filter type"):
                await ask(channel)

    async def test_an_override_of_a_session_filter_switched_off_is_refused_as_unknown(self, autojump_clock):
        async with Mesh.run(1, sessions=False) as mesh, mesh.channel() as channel:
            mesh.plane.put(scoped(route=OFF))
            with pytest.raises(RpcError, match="unsupported filter type"):
                await ask(channel)

    async def test_an_optional_session_filter_switched_off_reads_and_writes_no_cookie(self, autojump_clock):
        async with Mesh.run(2, sessions=False) as mesh, mesh.channel() as channel:
            listen(mesh, {**session_filter(state=in_cookie()), "is_optional": True})
            await ask(channel)
            await trio.sleep(1)
            assert await hosts(channel, f"{mesh.hosts[0]};cart") == set(mesh.hosts)
            assert (await answer(channel)).cookies == []

    async def test_no_cluster_is_read_from_a_cookie_with_sessions_switched_off(self, autojump_clock):
        async with Mesh.run(2, sessions=False) as mesh, mesh.channel() as channel:
            listen(mesh, {**session_filter(state=in_cookie()), "is_optional": True})
            for cluster, host in zip("xy", mesh.hosts, strict=True):
                mesh.cluster(cluster)
                mesh.endpoints(cluster, [host])
            mesh.route({"x": 1, "y": 1_000_000})
            await trio.sleep(1)
            assert await hosts(channel, f"{mesh.hosts[0]};x") == {mesh.hosts[1]}

    async def test_draining_hosts_get_no_rpcs_with_sessions_switched_off(self, autojump_clock):
        async with Mesh.run(2, sessions=False) as mesh, mesh.channel() as channel:
            mesh.cluster("cart", override_statuses=["HEALTHY", "DRAINING"])
            drains, serves = mesh.hosts
            mesh.endpoints("cart", xds.locality(drains, serves, health={drains: "DRAINING"}))
            assert await hosts(channel, f"{drains};cart") == {serves}
            assert mesh.network.attempts[drains] == 0


@pytest.mark.parametrize("value", ["true", "", "TRUE", "1"])
async def test_any_other_value_of_the_variable_leaves_sessions_on(autojump_clock, monkeypatch, value):
    monkeypatch.setenv(GUARD, value)
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        assert (await answer(channel)).cookies


# -- an override of another filter's type (our choice: A39 checks routes without their listener)


async def test_an_override_of_another_filters_type_does_not_replace_the_session_filter(autojump_clock):
    async with Mesh.run(3) as mesh:
        listen(mesh, session_filter(state=in_cookie()))
        abort = {"@type": FAULT, "abort": {"grpc_status": 10, "percentage": {"numerator": 100}}}
        mesh.route(xds.route("cart") | {"typed_per_filter_config": {"stateful_session": abort}})
        async with mesh.channel() as channel:
            said = await answer(channel)
            assert said.said == f"{said.host};cart", "neither failed on purpose nor without its session"
