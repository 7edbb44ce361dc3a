"""A channel starts from the last accepted resources while no control plane answers, until one does."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
from support.logs import lines
from support.mesh import PLANE, Mesh, ask
from support.resource_cache import cache_file, cached, come_back, down, edit, fill, restarted

import trxds
from trxds import RpcError, StatusCode
from trxds.resources import protos
from trxds.testing import ManagementServer, Server
from trxds.testing import resources as xds

SECOND = "10.0.0.2:18000"


@pytest.fixture(params=["xds_v3", "trxds.delta"])
def bootstrap(request):
    """Run a test in both protocol variants."""
    return xds.bootstrap(PLANE, features=(request.param,))


async def test_a_channel_starts_from_the_cache_while_no_control_plane_answers(autojump_clock, tmp_path, bootstrap):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path, bootstrap=bootstrap)
        async with restarted(mesh, tmp_path, bootstrap=bootstrap) as channel:
            with trio.fail_after(1):
                assert await ask(channel) == mesh.hosts[0]


async def test_without_a_cache_such_a_start_fails_calls(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        down(mesh)
        async with mesh.channel() as channel:
            with pytest.raises(RpcError) as caught:
                await ask(channel)
            assert caught.value.status.code is StatusCode.UNAVAILABLE


async def test_a_server_that_answers_replaces_what_came_from_the_cache(autojump_clock, tmp_path, bootstrap):
    async with Mesh.run(2) as mesh:
        mesh.endpoints("cart", mesh.hosts[:1])
        await fill(mesh, tmp_path, bootstrap=bootstrap)
        async with restarted(mesh, tmp_path, bootstrap=bootstrap) as channel:
            assert await ask(channel) == mesh.hosts[0]
            mesh.endpoints("cart", mesh.hosts[1:])
            await come_back(mesh)
            assert await ask(channel) == mesh.hosts[1]
            assert channel.admin_view().client.stale == ""


async def test_no_call_fails_and_no_session_moves_while_a_server_replaces_the_cache(
    autojump_clock, tmp_path, bootstrap
):
    async with Mesh.run(3) as mesh:
        await fill(mesh, tmp_path, bootstrap=bootstrap)
        async with restarted(mesh, tmp_path, bootstrap=bootstrap) as channel, channel.session() as session:
            host = await ask(session)
            mesh.network.restore(PLANE)
            for kind in ("LDS", "RDS", "CDS", "EDS"):
                mesh.plane.withhold(kind)
            for kind in ("CDS", "LDS", "EDS", "RDS"):
                mesh.plane.release(kind)
                for _ in range(20):
                    await trio.sleep(0.2)
                    assert await ask(session) == host
            assert channel.admin_view().client.stale == ""


async def test_a_resource_with_the_same_bytes_stays_the_same_object(autojump_clock, tmp_path, bootstrap):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path, bootstrap=bootstrap)
        async with restarted(mesh, tmp_path, bootstrap=bootstrap) as channel:
            await ask(channel)
            before = {each.key: each.value for each in channel.admin_view().client.resources}
            await come_back(mesh)
            after = {each.key: each for each in channel.admin_view().client.resources}
            assert len(before) == 4
            assert all(after[key].value is value and not after[key].is_stale for key, value in before.items())


async def test_a_server_gets_no_version_of_the_cache_so_it_sends_everything(autojump_clock, tmp_path, bootstrap):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path, bootstrap=bootstrap)
        async with restarted(mesh, tmp_path, bootstrap=bootstrap) as channel:
            await ask(channel)
            await come_back(mesh)
            first = [each for each in mesh.plane.requests if each.answer == "SUBSCRIBE"]
            assert [(each.kind, each.version) for each in first] == [("LDS", ""), ("RDS", ""), ("CDS", ""), ("EDS", "")]
            assert {each.kind for each in mesh.plane.responses} == {"LDS", "RDS", "CDS", "EDS"}


async def test_a_control_plane_that_hangs_holds_up_a_start_for_15_seconds(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        mesh.network.black_hole(PLANE)
        async with mesh.channel(cache_dir=tmp_path) as channel:
            began = trio.current_time()
            assert await ask(channel) == mesh.hosts[0]
            assert 15 <= trio.current_time() - began < 16


async def test_a_control_plane_that_is_silent_does_not_take_the_cache_away(autojump_clock, tmp_path, bootstrap):
    """The resource timers (A57) expire; but a server that never answered has not said that anything is absent."""
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path, bootstrap=bootstrap)
        for kind in ("LDS", "RDS", "CDS", "EDS"):
            mesh.plane.withhold(kind)
        async with mesh.channel(cache_dir=tmp_path, bootstrap=bootstrap) as channel:
            for _ in range(3):
                assert await ask(channel) == mesh.hosts[0]
                await trio.sleep(60)
            assert len(cached(tmp_path)) == 4  # and nothing has left the file


async def test_a_server_that_answers_without_a_resource_takes_it_away(autojump_clock, tmp_path, bootstrap):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path, bootstrap=bootstrap)
        async with restarted(mesh, tmp_path, bootstrap=bootstrap) as channel:
            await ask(channel)
            mesh.plane.remove("LDS", "shop")
            mesh.network.restore(PLANE)
            await trio.sleep(40)
            with pytest.raises(RpcError, match=r'LDS resource "shop".*does not exist'):
                await ask(channel)
            assert "LDS shop" not in cached(tmp_path)


async def test_a_resource_of_the_cache_stays_in_use_while_the_server_sends_an_invalid_one(
    autojump_clock, tmp_path, bootstrap
):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path, bootstrap=bootstrap)
        async with restarted(mesh, tmp_path, bootstrap=bootstrap) as channel:
            await ask(channel)
            mesh.plane.put({**xds.cluster("cart"), "lb_policy": "MAGLEV"})
            await come_back(mesh)
            assert await ask(channel) == mesh.hosts[0]
            states = {each.type.kind: each.shown_state for each in channel.admin_view().client.resources}
            assert states == {"LDS": "acked", "RDS": "acked", "CDS": "nacked", "EDS": "acked"}
            assert channel.admin_view().client.stale.startswith('CDS resource "cart" is stale: ')


async def test_after_an_answer_nothing_is_taken_from_the_cache(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        mesh.plane.withhold("CDS")
        async with mesh.channel(cache_dir=tmp_path) as channel:
            await mesh.plane.wait_for_ack("RDS")
            with pytest.raises(RpcError, match=r'CDS resource "cart".*does not exist'):
                await ask(channel)
            down(mesh)
            await trio.sleep(60)
            assert channel.admin_view().client.stale == ""


async def test_a_fallback_server_goes_before_the_cache(autojump_clock, tmp_path):
    async with Mesh.run(2) as mesh, second_plane(mesh) as second:
        both = xds.bootstrap(PLANE, SECOND)
        second.put(*served(mesh.hosts[1]))
        mesh.endpoints("cart", mesh.hosts[:1])
        await fill(mesh, tmp_path, bootstrap=both)
        async with restarted(mesh, tmp_path, bootstrap=both) as channel:
            assert await ask(channel) == mesh.hosts[1]
            assert channel.admin_view().client.stale == ""


async def test_what_comes_from_the_cache_does_not_keep_a_fallback_server_from_being_asked(autojump_clock, tmp_path):
    """A71: the next server is asked while a resource never came; the cache stands in after 15 s, before it fails."""
    async with Mesh.run(2) as mesh, second_plane(mesh) as second:
        both = xds.bootstrap(PLANE, SECOND)
        second.put(*served(mesh.hosts[1]))
        mesh.endpoints("cart", mesh.hosts[:1])
        await fill(mesh, tmp_path, bootstrap=both)
        mesh.network.black_hole(PLANE)
        async with mesh.channel(cache_dir=tmp_path, bootstrap=both) as channel:
            assert await ask(channel) == mesh.hosts[0]
            await trio.sleep(10)
            assert await ask(channel) == mesh.hosts[1]


async def test_channels_of_a_shared_client_start_from_one_cache(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        mesh.listen(name="kiosk")

        async def ask_both():
            options = {"bootstrap": mesh.bootstrap, "network": mesh.network}
            async with trxds.open_xds_client(**options, cache_dir=tmp_path) as client:
                for target in ("xds:///shop", "xds:///kiosk"):
                    async with trxds.open_channel(target, xds=client, network=mesh.network) as channel:
                        assert await ask(channel) == mesh.hosts[0]
                await trio.sleep(3)

        await ask_both()
        # The first channel was closed before the end, and its resources stay for the next start.
        assert cached(tmp_path).keys() == {"LDS shop", "LDS kiosk", "RDS routes", "CDS cart", "EDS cart"}
        down(mesh)
        await ask_both()


async def test_each_authority_of_the_bootstrap_falls_back_to_the_cache_by_itself(autojump_clock, tmp_path):
    name = "xdstp://other/envoy.config.listener.v3.Listener/shop"
    async with Mesh.run(2) as mesh, second_plane(mesh) as second:
        second.put(xds.listener(name, routes="routes"))
        both = xds.bootstrap(PLANE) | {"authorities": {"other": {"xds_servers": xds.bootstrap(SECOND)["xds_servers"]}}}
        async with mesh.channel("xds://other/shop", cache_dir=tmp_path, bootstrap=both) as channel:
            await ask(channel)
            await trio.sleep(3)
        down(mesh, SECOND)
        async with mesh.channel("xds://other/shop", cache_dir=tmp_path, bootstrap=both) as channel:
            assert await ask(channel) in mesh.hosts
            stale = [each.name for each in channel.admin_view().client.resources if each.is_stale]
            assert stale == [name]


async def test_the_bootstrap_may_name_the_cache(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        bootstrap = mesh.bootstrap | {"trxds.cache": {"directory": str(tmp_path), "max_age": "3600s"}}
        async with mesh.channel(bootstrap=bootstrap) as channel:
            await ask(channel)
            await trio.sleep(3)
        down(mesh)
        async with mesh.channel(bootstrap=bootstrap) as channel:
            assert await ask(channel) == mesh.hosts[0]


async def test_what_is_too_old_is_not_used(autojump_clock, tmp_path, caplog):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        edit(tmp_path, age=25 * 3600.0)
        async with restarted(mesh, tmp_path) as channel:
            with pytest.raises(RpcError, match="cannot reach the xDS server"):
                await ask(channel)
        assert f"the resource cache {cache_file(tmp_path)} is ignored: all of it is older than 86400 s" in caplog.text


async def test_a_resource_of_the_cache_that_a_server_could_not_send_is_refused(autojump_clock, tmp_path, caplog):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        edit(tmp_path, values={"cart": b"\xff"})
        async with restarted(mesh, tmp_path) as channel:
            with pytest.raises(RpcError, match=r'CDS resource "cart".*cannot reach the xDS server'):
                await ask(channel)
        assert f'CDS resource "cart" of the cache {cache_file(tmp_path)} is refused' in caplog.text
        assert "Can't decode Cluster resource" in caplog.text


async def test_a_resource_that_only_its_wrapper_named_comes_back_from_the_cache(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        await fill(mesh, tmp_path)
        nameless = xds.routes("", xds.route("cart"))
        edit(tmp_path, values={"routes": protos.from_json(nameless).value})
        async with restarted(mesh, tmp_path) as channel:
            assert await ask(channel) == mesh.hosts[0]


async def test_the_log_says_that_a_cache_can_be_written_again(autojump_clock, tmp_path, caplog):
    caplog.set_level("INFO", "trxds.xds")
    (tmp_path / "cache").write_text("in the way")
    async with Mesh.run(1) as mesh, mesh.channel(cache_dir=tmp_path / "cache") as channel:
        await ask(channel)
        await trio.sleep(5)
        (tmp_path / "cache").unlink()
        for number in range(3):
            mesh.endpoints("cart", [mesh.hosts[0], f"10.9.9.{number}:1"])
            await trio.sleep(5)
    assert len([each for each in lines(caplog, "xds") if "is written again" in each]) == 1


async def test_a_directory_that_cannot_be_written_stops_no_call_and_is_said_once(autojump_clock, tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    async with Mesh.run(1) as mesh:
        async with mesh.channel(cache_dir=tmp_path / "file") as channel:
            await ask(channel)
            for number in range(3):
                mesh.endpoints("cart", [mesh.hosts[0], f"10.9.9.{number}:1"])
                await trio.sleep(5)
            await ask(channel)
        written = [each for each in lines(caplog, "xds", 30) if "cannot be written" in each]
        assert len(written) == 1
        assert str(tmp_path / "file") in written[0]


async def test_a_relative_directory_stays_where_it_was_when_the_channel_opened(autojump_clock, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    async with Mesh.run(1) as mesh, mesh.channel(cache_dir="cache") as channel:
        monkeypatch.chdir(tmp_path / "elsewhere")
        await ask(channel)
        await trio.sleep(5)
    assert len(cached(tmp_path / "cache")) == 4


async def test_a_channel_of_a_shared_client_and_one_without_xds_refuse_a_cache(autojump_clock, tmp_path):
    async with Mesh.run(1) as mesh:
        async with trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network) as client:
            with pytest.raises(ValueError, match="cache_dir and http_filters are the xDS client's when it is shared"):
                async with trxds.open_channel("xds:///shop", xds=client, cache_dir=tmp_path):
                    pass
        with pytest.raises(ValueError, match="cache_dir cannot be used with the target 'dns:///shop'"):
            async with trxds.open_channel("dns:///shop", cache_dir=tmp_path):
                pass
        with pytest.raises(ValueError, match="cache_dir is ''; write the path of a directory"):
            async with trxds.open_channel("xds:///shop", bootstrap=mesh.bootstrap, cache_dir=""):
                pass


@asynccontextmanager
async def second_plane(mesh):
    plane = ManagementServer()
    async with trio.open_nursery() as nursery:
        await nursery.start(Server(plane.handlers, address=SECOND, network=mesh.network).run)
        yield plane
        nursery.cancel_scope.cancel()


def served(host):
    yield xds.listener("shop", routes="routes")
    yield xds.routes("routes", xds.route("cart"))
    yield xds.cluster("cart")
    yield xds.endpoints("cart", xds.locality(host))
