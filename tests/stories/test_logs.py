"""What the log says at INFO: connections, ADS streams and configurations, one line for each that comes or goes."""

import logging
from contextlib import suppress

import pytest
import trio
from support.logs import lines
from support.mesh import PLANE, Mesh, ask
from support.outliers import EJECTION, broken
from support.plain import hosts_in_memory
from support.resolvers import ROUND_ROBIN, Feed, settled
from support.resolvers import TARGET as MY_TARGET

import trxds
from trxds import RpcError
from trxds.testing import resources as xds

TARGET = "xds:///shop"


@pytest.fixture(autouse=True)
def _at_info(caplog):
    caplog.set_level(logging.INFO, "trxds")


class TestConnections:
    async def test_a_connection_is_logged_when_it_is_made_and_when_it_is_lost(self, caplog, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            (host,) = mesh.hosts
            await ask(channel)
            assert lines(caplog, "transport") == [f"{TARGET}: connected to {host}"]
            mesh.servers[host].goaway()
            await trio.sleep(0.01)
            assert lines(caplog, "transport")[0] == f"{TARGET}: lost the connection to {host} (GOAWAY NO_ERROR)"

    async def test_a_host_that_hangs_up_is_the_reason(self, caplog, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
            mesh.network.refuse(mesh.hosts[0])
            lines(caplog, "transport")
            mesh.servers[mesh.hosts[0]].drop_connections()
            await trio.sleep(0.01)
            lost, refused = lines(caplog, "transport")
            assert lost.startswith(f"{TARGET}: lost the connection to {mesh.hosts[0]} (")
            assert refused.startswith(f"{TARGET}: {mesh.hosts[0]}: cannot connect: ")

    async def test_an_outage_of_a_host_is_one_line_however_often_it_is_tried(self, caplog, autojump_clock):
        async with Mesh.run(2) as mesh:
            mesh.network.refuse(mesh.hosts[0])
            async with mesh.channel() as channel:
                await ask(channel)
                await trio.sleep(600)
                failures = [line for line in lines(caplog, "transport") if "cannot connect" in line]
                assert mesh.network.attempts[mesh.hosts[0]] > 5 and len(failures) == 1
                mesh.network.restore(mesh.hosts[0])
                await trio.sleep(200)
                assert lines(caplog, "transport") == [f"{TARGET}: connected to {mesh.hosts[0]}"]

    async def test_many_hosts_that_connect_at_once_do_not_fill_the_log(self, caplog, autojump_clock):
        async with Mesh.run(40) as mesh, mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(0.5)
            shown = lines(caplog, "transport")
            assert len(shown) == 10 and not any("left out" in line for line in shown[:9])
            assert shown[9].endswith(" (more such lines within a second are left out)")
            await trio.sleep(1)
            mesh.endpoints("cart", [*mesh.hosts, await mesh.add_host()])
            await trio.sleep(1)
            assert lines(caplog, "transport") == [
                f"{TARGET}: connected to {mesh.hosts[-1]} (30 such lines before it were left out)"
            ]

    async def test_connections_that_the_channel_ends_are_no_loss(self, caplog, autojump_clock):
        async with Mesh.run(3) as mesh:
            async with mesh.channel() as channel:
                await ask(channel)
                await trio.sleep(1)
                mesh.endpoints("cart", mesh.hosts[:1])
                await trio.sleep(1)
                lines(caplog, "transport")
            assert lines(caplog, "transport") == []

    async def test_a_channel_that_becomes_idle_says_why_its_connections_end(self, caplog, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel(idle_timeout=16) as channel:
            await ask(channel)
            caplog.clear()
            await trio.sleep(20)
            assert [each.getMessage() for each in caplog.records] == [
                f"{TARGET}: no call for 16 s, so the channel is IDLE and its connections end; the next call connects"
            ]

    async def test_an_ejected_host_is_logged(self, caplog, autojump_clock):
        async with Mesh.run(2) as mesh:
            mesh.plane.put({**xds.cluster("cart"), "outlier_detection": EJECTION})
            mesh.servers[mesh.hosts[0]].fallback = broken
            async with mesh.channel() as channel:
                for _ in range(20):
                    with suppress(RpcError):
                        await ask(channel)
                    await trio.sleep(0.1)
        assert lines(caplog, "lb") == [
            f"{TARGET}: ejected {mesh.hosts[0]} of cluster cart, an outlier by failure_percentage"
        ]


class TestControlPlane:
    async def test_an_ads_stream_is_logged_when_it_begins_ends_and_begins_again(self, caplog, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
            assert lines(caplog, "xds") == [f"{TARGET}: the ADS stream to xDS server {PLANE} has begun"]
            mesh.plane_server.drop_connections()
            await trio.sleep(5)
            ended, begun = lines(caplog, "xds")
            assert ended.startswith(f"xDS server {PLANE}: ") and "trying again in" in ended
            assert begun == f"{TARGET}: the ADS stream to xDS server {PLANE} has begun"

    async def test_the_stream_of_a_shared_client_is_its_own(self, caplog, autojump_clock):
        async with (
            Mesh.run(1) as mesh,
            trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network) as shared,
            mesh.channel(bootstrap=None, xds=shared) as channel,
        ):
            await ask(channel)
        assert lines(caplog, "xds")[0] == f"shared xDS client: the ADS stream to xDS server {PLANE} has begun"


class TestConfiguration:
    async def test_the_first_configuration_names_its_resources(self, caplog, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
        assert lines(caplog, "resolver") == [
            f'{TARGET}: the first configuration is in force, with 1 cluster: LDS resource "shop", '
            'RDS resource "routes" version 1, CDS resource "cart" version 1, EDS resource "cart" version 1'
        ]

    async def test_a_change_names_the_resource_and_its_version(self, caplog, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            await ask(channel)
            lines(caplog, "resolver")
            mesh.endpoints("cart", mesh.hosts[:1])
            await trio.sleep(1)
            assert lines(caplog, "resolver") == [
                f'{TARGET}: a new configuration is in force: EDS resource "cart" version 2'
            ]

    async def test_a_new_route_brings_its_cluster_and_a_removed_one_takes_it_along(self, caplog, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
            mesh.cluster("new")
            mesh.endpoints("new", mesh.hosts)
            lines(caplog, "resolver")
            mesh.route("new")
            await trio.sleep(1)
            first, *others = lines(caplog, "resolver")
            new = 'CDS resource "new" version 2, EDS resource "new" version 2'
            assert first == f'{TARGET}: a new configuration is in force: RDS resource "routes" version 2, {new}'
            assert 'no CDS resource "cart" any more' in "".join(others)

    async def test_a_changed_listener_is_named(self, caplog, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
            lines(caplog, "resolver")
            mesh.listen(sessions=False)
            await trio.sleep(1)
            assert lines(caplog, "resolver") == [f'{TARGET}: a new configuration is in force: LDS resource "shop"']

    async def test_a_resource_that_comes_again_unchanged_is_no_line(self, caplog, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
            lines(caplog, "resolver")
            mesh.cluster("cart")
            mesh.endpoints("cart", mesh.hosts)
            await trio.sleep(1)
            mesh.plane_server.drop_connections()
            await trio.sleep(30)
            assert lines(caplog, "resolver") == []

    async def test_a_line_names_five_resources_and_counts_the_others(self, caplog, autojump_clock):
        async with Mesh.run(1) as mesh:
            names = [f"c{number}" for number in range(9)]
            for name in names:
                mesh.cluster(name)
                mesh.endpoints(name, mesh.hosts)
            mesh.route(*(xds.route(name, prefix=f"/{name}/") for name in names), xds.route("cart"))
            async with mesh.channel() as channel:
                await ask(channel)
        (line,) = lines(caplog, "resolver")
        assert "with 10 clusters" in line and line.endswith(" and 17 more")

    async def test_a_resource_that_is_refused_is_a_warning(self, caplog, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
            caplog.clear()
            mesh.plane.put({**xds.cluster("cart"), "lb_policy": "MAGLEV"})
            await trio.sleep(1)
            assert [each.levelname for each in caplog.records] == ["WARNING"]
            assert 'CDS resource "cart"' in caplog.text

    async def test_addresses_without_a_control_plane_are_logged(self, caplog, autojump_clock):
        async with Mesh.run(2) as mesh:
            target = f"ipv4:{','.join(mesh.hosts)}"
            async with mesh.channel(target, bootstrap=None) as channel:
                await ask(channel)
        assert lines(caplog, "resolver") == [f"{target}: 2 addresses in force: {', '.join(mesh.hosts)}"]

    async def test_another_service_config_of_a_resolver_is_logged_once(self, caplog, autojump_clock):
        feed = Feed()
        async with hosts_in_memory(1) as mesh, mesh.channel(MY_TARGET, resolvers={"my": feed.resolve}) as channel:
            for config in (None, ROUND_ROBIN, ROUND_ROBIN):
                feed.push(*mesh.hosts, service_config=config)
                await ask(channel)
                await settled()
        assert lines(caplog, "resolver")[1:] == [f"{MY_TARGET}: another service config is in force"]

    async def test_a_resolver_that_works_again_is_logged_although_nothing_else_has_changed(
        self, caplog, autojump_clock
    ):
        feed = Feed()
        async with hosts_in_memory(1) as mesh, mesh.channel(MY_TARGET, resolvers={"my": feed.resolve}) as channel:
            for step in (mesh.hosts[0], OSError("registry is down"), mesh.hosts[0]):
                feed.push(step)
                await ask(channel)
                await trio.sleep(5)
        assert "registry is down" in caplog.text
        _, recovery = lines(caplog, "resolver")
        assert recovery.startswith(f"target {MY_TARGET} is resolved again; it had failed since ")
