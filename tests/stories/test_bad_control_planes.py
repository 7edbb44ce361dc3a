"""Errors about a bad control plane or resource name the thing, its place, and the remedy."""

import pytest
import trio
from support.bad_peers import GARBAGE, channel_to_plane, failure, names, says, website
from support.mesh import METHOD, PLANE, Mesh, ask, method

from trxds import StatusCode
from trxds.testing import resources as xds


class TestControlPlane:
    IN_QUESTION = ('LDS resource "shop"', f"server {PLANE}", 'node "trxds-test"', "cannot reach the xDS server")

    async def test_a_control_plane_that_refuses_connections_fails_rpcs_at_once(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.network.refuse(PLANE)
            async with mesh.channel() as channel:
                status = await failure(ask(channel))
        assert status.code is StatusCode.UNAVAILABLE
        names(status.message, *self.IN_QUESTION, "Connection refused", "check that it runs, and server_uri")

    async def test_a_control_plane_that_cannot_be_connected_fails_rpcs_after_twenty_seconds(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.network.black_hole(PLANE)
            async with mesh.channel() as channel:
                status = await failure(ask(channel), within=20)
                names(status.message, *self.IN_QUESTION, "check server_uri")
                await failure(ask(channel))

    async def test_a_wait_for_ready_rpc_waits_for_a_control_plane(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.network.refuse(PLANE)
            async with mesh.channel() as channel, trio.open_nursery() as nursery:
                answers = []

                async def wait():
                    answers.append(await ask(channel, wait_for_ready=True))

                nursery.start_soon(wait)
                await trio.sleep(10)
                assert answers == []
                mesh.network.restore(PLANE)
                await trio.sleep(60)
                assert answers == mesh.hosts

    async def test_the_deadline_error_of_a_wait_for_ready_rpc_names_the_control_plane(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.network.refuse(PLANE)
            async with mesh.channel() as channel:
                status = await failure(ask(channel, wait_for_ready=True, timeout=5), within=5)
        assert status.code is StatusCode.DEADLINE_EXCEEDED
        names(status.message, METHOD, "5 s", *self.IN_QUESTION)

    @pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
    async def test_a_control_plane_without_http2_fails_rpcs_at_once(self, data, autojump_clock):
        async with channel_to_plane(says(data)) as channel:
            status = await failure(ask(channel))
        assert status.code is StatusCode.UNAVAILABLE
        names(status.message, *self.IN_QUESTION, "does not speak HTTP/2", "check server_uri")

    async def test_a_control_plane_without_http2_settings_fails_rpcs_after_twenty_seconds(self, autojump_clock):
        async with channel_to_plane(says(b"")) as channel:
            status = await failure(ask(channel), within=20)
        names(status.message, *self.IN_QUESTION, "check server_uri")

    async def test_a_control_plane_that_is_a_website_fails_rpcs_at_once(self, autojump_clock):
        async with channel_to_plane(website("404")) as channel:
            status = await failure(ask(channel))
        assert status.code is StatusCode.UNAVAILABLE, "its codes never reach RPCs (A54)"
        names(status.message, *self.IN_QUESTION, "HTTP status 404", "check that a gRPC server listens there")


class TestResources:
    @pytest.mark.parametrize(("kind", "name"), [("LDS", "shop"), ("RDS", "routes"), ("CDS", "cart"), ("EDS", "cart")])
    async def test_a_resource_that_does_not_exist_fails_rpcs_after_fifteen_seconds(self, kind, name, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.plane.remove(kind, name)
            async with mesh.channel() as channel:
                status = await failure(ask(channel), within=15)
                assert await failure(ask(channel)) == status, "from then on at once"
        assert status.code is StatusCode.UNAVAILABLE
        names(status.message, f'{kind} resource "{name}"', f"server {PLANE}", 'node "trxds-test"', "does not exist")

    async def test_an_unknown_cluster_fails_its_own_rpcs_only(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.route(xds.route("nowhere", prefix="/shop.Cart/Lost"), xds.route("cart"))
            async with mesh.channel() as channel:
                status = await failure(method(channel, "/shop.Cart/Lost")(b""), within=15)
                names(status.message, 'CDS resource "nowhere"', f"server {PLANE}", "does not exist")
                assert await ask(channel) == mesh.hosts[0]

    async def test_an_invalid_resource_is_nacked_with_the_path_of_the_field(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.cluster("cart", idle_timeout=-1)
            async with mesh.channel() as channel:
                status = await failure(ask(channel))
        names(status.message, 'CDS resource "cart"', f"server {PLANE}", "invalid resource", "idle_timeout.seconds")

    async def test_an_invalid_update_leaves_the_last_good_resource_in_force(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
            mesh.cluster("cart", idle_timeout=-1)
            nack = await mesh.plane.wait_for_nack("CDS")
            names(nack.error, "cart", "idle_timeout.seconds")
            assert await ask(channel) == mesh.hosts[0]

    async def test_routes_without_a_matching_virtual_host_fail_rpcs_and_name_the_domain(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.plane.put(xds.routes("routes", xds.route("cart"), domains=["other"]))
            async with mesh.channel() as channel:
                status = await failure(ask(channel))
        names(status.message, 'RDS resource "routes"', 'no virtual host for "shop"', "add that domain")

    async def test_an_rpc_without_a_matching_route_fails_with_that_reason(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.route(xds.route("cart", prefix="/other"))
            async with mesh.channel() as channel:
                status = await failure(ask(channel, wait_for_ready=True))
        assert status.code is StatusCode.UNAVAILABLE
        names(status.text, METHOD, 'virtual host "routes"')

    async def test_a_cluster_without_endpoints_fails_rpcs_with_that_reason(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.endpoints("cart")
            async with mesh.channel() as channel:
                status = await failure(ask(channel))
        names(status.message, 'EDS resource "cart"', "has no locality with a load_balancing_weight", "add one")
