"""Resources of several authorities form one configuration (A47); this includes the mesh suite's FederationTest."""

from contextlib import asynccontextmanager

import pytest
import trio
from support.channelz import ADMIN, READY, Tool, state
from support.mesh import PLANE, Mesh, ask

import trxds
import trxds.admin
from trxds import RpcError
from trxds.testing import ManagementServer, Server
from trxds.testing import resources as xds

SECOND = "10.0.0.2:18000"
TYPES = "envoy.config"
LISTENER = f"xdstp://authority1/{TYPES}.listener.v3.Listener/shop"
ROUTES = f"xdstp://authority1/{TYPES}.route.v3.RouteConfiguration/routes"
CLUSTER = f"xdstp://authority2/{TYPES}.cluster.v3.Cluster/cart"
ENDPOINTS = f"xdstp://authority2/{TYPES}.endpoint.v3.ClusterLoadAssignment/cart"


def bootstrap(**more):
    servers = [{"server_uri": SECOND, "channel_creds": [{"type": "insecure"}]}]
    return {**xds.bootstrap(PLANE), "authorities": {"authority1": {}, "authority2": {"xds_servers": servers}}, **more}


def channel(mesh, target="xds://authority1/shop", **more):
    return trxds.open_channel(target, bootstrap=bootstrap(**more), network=mesh.network)


@asynccontextmanager
async def two_authorities():
    """authority1 has the listener and its routes on the mesh's plane, authority2 the cluster on a plane of its own."""
    async with Mesh.run(2) as mesh, trio.open_nursery() as nursery:
        second = ManagementServer()
        await nursery.start(Server(second.handlers, address=SECOND, network=mesh.network).run)
        mesh.plane.put(xds.listener(LISTENER, routes=ROUTES, filters=[xds.stateful_session()]))
        mesh.plane.put(xds.routes(ROUTES, xds.route(CLUSTER)))
        cluster = xds.cluster(CLUSTER)
        cluster["eds_cluster_config"]["service_name"] = ENDPOINTS
        second.put(cluster, xds.endpoints(ENDPOINTS, xds.locality(*mesh.hosts)))
        yield mesh, second
        nursery.cancel_scope.cancel()


def asked(plane):
    return [(request.kind, *request.names) for request in plane.requests if request.answer == "SUBSCRIBE"]


async def test_a_listener_of_one_authority_leads_to_a_cluster_of_another(autojump_clock):
    async with two_authorities() as (mesh, second), channel(mesh) as caller:
        assert {await ask(caller) for _ in range(10)} == set(mesh.hosts)
        assert asked(mesh.plane) == [("LDS", LISTENER), ("RDS", ROUTES)]
        assert asked(second) == [("CDS", CLUSTER), ("EDS", ENDPOINTS)]
        assert (mesh.plane.streams, second.streams) == (1, 1)


async def test_channelz_shows_both_channels_to_control_planes_ready(autojump_clock):
    async with (
        two_authorities() as (mesh, _),
        channel(mesh) as caller,
        trxds.admin.serve(caller, address=ADMIN, network=mesh.network),
    ):
        await ask(caller)
        planes = [each for each in await Tool(mesh.network).channels() if each.ref.name.startswith("ads/")]
        assert {each.data.target: state(each) for each in planes} == {PLANE: READY, SECOND: READY}


async def test_a_session_stays_on_its_host_across_authorities(autojump_clock):
    async with two_authorities() as (mesh, _), channel(mesh) as caller, caller.session() as session:
        assert len({await ask(session) for _ in range(10)}) == 1


async def test_the_default_listener_template_may_name_an_authority(autojump_clock):
    template = f"xdstp://authority1/{TYPES}.listener.v3.Listener/%s"
    async with two_authorities() as (mesh, _):
        more = {"client_default_listener_resource_name_template": template}
        async with channel(mesh, "xds:///shop", **more) as caller:
            await ask(caller)


async def test_an_outage_of_an_authority_is_named_and_affects_only_its_resources(autojump_clock):
    async with two_authorities() as (mesh, _):
        mesh.network.refuse(SECOND)
        async with channel(mesh) as caller:
            with pytest.raises(RpcError) as caught:
                await ask(caller)
            assert f'CDS resource "{CLUSTER}" (server {SECOND}' in caught.value.status.message
            mesh.network.restore(SECOND)
            await trio.sleep(10)
            await ask(caller)


async def test_the_error_of_an_rpc_names_a_reference_to_an_unknown_authority(autojump_clock):
    async with two_authorities() as (mesh, _):
        mesh.plane.put(xds.routes(ROUTES, xds.route(CLUSTER.replace("authority2", "authority3"))))
        async with channel(mesh) as caller:
            with pytest.raises(RpcError, match='authority "authority3" is not in the bootstrap\'s authorities'):
                await ask(caller)


async def test_a_cluster_removed_by_one_authority_deletes_no_cluster_of_another(autojump_clock):
    async with two_authorities() as (mesh, _), channel(mesh) as caller:
        mesh.plane.put(xds.cluster("another"))
        mesh.plane.put(xds.routes(ROUTES, xds.route({CLUSTER: 1, "cart": 1})))
        await mesh.plane.wait_for_ack("CDS")
        await trio.sleep(1)
        mesh.plane.remove("CDS", "another")
        await trio.sleep(1)
        assert {await ask(caller) for _ in range(20)} <= set(mesh.hosts)
