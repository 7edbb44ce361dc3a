"""A channel that serves warns of hosts and control planes that it has lost: in `trxds ruok`, and on the live page."""

import pytest
import trio
from support.mesh import PLANE, Mesh, ask

import trxds
from trxds.admin.channel_source import channel_sources
from trxds.admin.state_stream.state_snapshot import Sampler
from trxds.cli.running.pages import RUOK, health_rows


async def state_of(*sources):
    return await Sampler(channel_sources(sources)).sample()


async def warnings(channel):
    """What `trxds ruok` warns of; the channel can serve all the same."""
    state = await state_of(channel)
    (row,) = health_rows(state)
    assert (row["ok"], RUOK.good(state)) == (True, True)
    return row["warnings"]


class TestHosts:
    async def test_a_healthy_channel_has_no_warnings(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(5)
            assert await warnings(channel) == []

    async def test_a_host_that_refuses_connections_is_a_warning_until_it_is_back(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(1)
            lost = mesh.hosts[0]
            mesh.network.refuse(lost)
            mesh.servers[lost].drop_connections()
            for _ in range(20):
                await trio.sleep(3.7)
                assert await warnings(channel) == [f"no connection to host {lost}: cannot connect: Connection refused"]
            mesh.network.restore(lost)
            await trio.sleep(200)
            assert await warnings(channel) == []

    async def test_a_host_that_never_answers_is_one_too_though_it_is_connecting(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            mesh.network.black_hole(mesh.hosts[0])
            async with mesh.channel() as channel:
                await ask(channel)
                await trio.sleep(1)
                assert await warnings(channel) == [], "its first attempt is under way"
                for _ in range(10):
                    await trio.sleep(23.3)
                    (warning,) = await warnings(channel)
                    assert warning.startswith(f"no connection to host {mesh.hosts[0]}: cannot connect: ")

    async def test_a_host_that_is_removed_is_no_warning(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            await ask(channel)
            mesh.network.refuse(mesh.hosts[0])
            mesh.servers[mesh.hosts[0]].drop_connections()
            await trio.sleep(5)
            mesh.endpoints("cart", mesh.hosts[1:])
            await trio.sleep(1)
            assert await warnings(channel) == []

    async def test_five_hosts_are_named_and_the_others_counted(self, autojump_clock):
        async with Mesh.run(9) as mesh:
            for host in mesh.hosts[:8]:
                mesh.network.refuse(host)
            async with mesh.channel() as channel:
                await ask(channel)
                await trio.sleep(1)
                found = await warnings(channel)
        assert len(found) == 6
        assert found[-1] == "no connection to 3 more hosts; `trxds lb` shows all"


class TestControlPlane:
    @pytest.mark.parametrize("shared", [False, True], ids=["its own client", "a shared client"])
    async def test_a_control_plane_that_is_gone_is_a_warning_of_each_channel_until_it_is_back(
        self, shared, autojump_clock
    ):
        async with (
            Mesh.run(1) as mesh,
            trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network) as client,
            mesh.channel(**({"bootstrap": None, "xds": client} if shared else {})) as channel,
        ):
            await ask(channel)
            mesh.network.refuse(PLANE)
            mesh.plane_server.drop_connections()
            await trio.sleep(60)
            (warning,) = await warnings(channel)
            lost = "the control plane is lost, and what it sent before stays in use"
            assert warning.startswith(f"{lost}; server {PLANE}: cannot reach the xDS server since ")
            assert "Connection refused; check that it runs" in warning
            assert await ask(channel) == mesh.hosts[0]
            mesh.network.restore(PLANE)
            await trio.sleep(200)
            assert await warnings(channel) == []

    async def test_the_state_stream_has_the_state_of_each_control_plane(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
            key = f"shop/ads/{PLANE}"
            row = (await state_of(channel))["control_planes"][key]
            assert (row["channel"], row["server"], row["state"], row["error"]) == ("shop", PLANE, "READY", "")
            mesh.network.refuse(PLANE)
            mesh.plane_server.drop_connections()
            await trio.sleep(60)
            state = await state_of(channel)
            assert state["control_planes"][key]["state"] == "TRANSIENT_FAILURE"
            assert "Connection refused" in state["control_planes"][key]["error"]
            (outage,) = state["channels"]["shop"]["outages"]
            assert outage.startswith(f"server {PLANE}: cannot reach the xDS server since ")
            assert {(row["state"], row["error"]) for row in state["resources"].values()} == {("acked", outage)}

    async def test_each_channel_of_a_shared_client_warns(self, autojump_clock):
        async with (
            Mesh.run(1) as mesh,
            trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network) as client,
            mesh.channel(bootstrap=None, xds=client) as one,
            mesh.channel(bootstrap=None, xds=client) as other,
        ):
            await ask(one)
            await ask(other)
            mesh.network.refuse(PLANE)
            mesh.plane_server.drop_connections()
            await trio.sleep(60)
            rows = list(health_rows(await state_of(one, other)))
        assert ["the control plane is lost" in "".join(row["warnings"]) for row in rows] == [True, True]

    async def test_the_end_of_a_stream_after_an_answer_is_no_outage(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
            mesh.plane_server.drop_connections()
            await trio.sleep(0.01)
            assert await warnings(channel) == []
