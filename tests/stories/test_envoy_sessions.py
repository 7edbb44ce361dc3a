"""Strict sessions and header sessions work as in Envoy's stateful session filter."""

import pytest
import trio
from support.mesh import Mesh, ask, spread
from support.sessions import answer, b64, hosts, in_cookie, in_header, listen, override, session_filter

from trxds import RpcError, StatusCode
from trxds.testing import resources as xds


class TestStrict:
    def listen(self, mesh):
        listen(mesh, session_filter(state=in_cookie(), strict=True))

    async def refused(self, channel, cookie):
        with pytest.raises(RpcError) as failed:
            await answer(channel, cookie)
        assert failed.value.status.code is StatusCode.UNAVAILABLE
        return failed.value

    async def test_a_strict_session_without_a_cookie_may_use_any_host(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            self.listen(mesh)
            await ask(channel)
            await trio.sleep(1)
            assert await hosts(channel) == set(mesh.hosts)

    async def test_a_strict_session_goes_to_its_host(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            self.listen(mesh)
            host = mesh.hosts[1]
            assert await hosts(channel, f"{host};cart") == {host}

    async def test_a_strict_session_whose_host_was_removed_fails(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            self.listen(mesh)
            staying, leaving = mesh.hosts
            mesh.endpoints("cart", [staying])
            failed = await self.refused(channel, f"{leaving};cart")
            assert leaving in failed.status.message
            assert failed.initial_metadata.first("set-cookie") is None

    async def test_a_strict_session_fails_while_its_host_is_down(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            self.listen(mesh)
            host = mesh.hosts[0]
            await answer(channel, f"{host};cart")
            mesh.network.refuse(host)
            mesh.network.cut(host)
            await trio.sleep(0.5)
            await self.refused(channel, f"{host};cart")
            mesh.network.restore(host)
            assert await hosts(channel, f"{host};cart", wait_for_ready=True) == {host}

    async def test_a_strict_session_on_a_draining_host_outside_override_host_status_fails(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            self.listen(mesh)
            host = mesh.hosts[0]
            mesh.endpoints("cart", xds.locality(*mesh.hosts, health={host: "DRAINING"}))
            await self.refused(channel, f"{host};cart")

    async def test_a_strict_session_ignores_a_cookie_that_is_no_base64(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            self.listen(mesh)
            assert (await answer(channel, metadata=[("cookie", "session=!!!")])).host == mesh.hosts[0]

    async def test_a_route_may_make_its_sessions_strict(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            strict = override(stateful_session={"strict": True, "session_state": session_state()})
            mesh.route({**xds.route("cart", prefix="/strict/"), "typed_per_filter_config": strict}, xds.route("cart"))
            gone = "10.9.9.9:1;cart"
            assert (await answer(channel, gone)).host in mesh.hosts
            with pytest.raises(RpcError):
                await answer(channel, gone, path="/strict/m")


def session_state():
    return {"name": "x", "typed_config": in_cookie()}


class TestHeader:
    def listen(self, mesh, name="X-Session"):
        listen(mesh, session_filter(state=in_header(name)))

    async def test_a_header_session_gets_the_hosts_address_in_base64(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            self.listen(mesh)
            first = await answer(channel)
            assert first.headers == [("x-session", b64(first.host))]

    async def test_a_header_session_stays_on_its_host_without_a_response_header(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            self.listen(mesh)
            host = mesh.hosts[2]
            for _ in range(5):
                again = await answer(channel, metadata=[("x-session", b64(host))])
                assert (again.host, again.headers) == (host, [])

    async def test_a_header_session_whose_host_was_removed_gets_another(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            self.listen(mesh)
            other = await answer(channel, metadata=[("x-session", b64("10.9.9.9:1"))])
            assert other.headers == [("x-session", b64(mesh.hosts[0]))]

    async def test_a_header_session_replaces_the_servers_header_of_that_name(self, autojump_clock):
        async def own(call):
            await call.send_initial_metadata([("x-session", "mine"), ("x-other", "stays")])
            await call.send(b"")

        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            self.listen(mesh)
            mesh.servers[mesh.hosts[0]].fallback = own
            assert (await answer(channel)).headers == [("x-other", "stays"), ("x-session", b64(mesh.hosts[0]))]

    async def test_a_session_block_keeps_the_session_header(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            self.listen(mesh)
            await ask(channel)
            await trio.sleep(1)
            (host,) = await spread(session, 10)
            assert set(await spread(channel, 10)) == set(mesh.hosts)
            assert await ask(session, metadata=[("x-session", b64(mesh.hosts[0]))]) == mesh.hosts[0], (
                "one's own goes first"
            )
            mesh.endpoints("cart", [other for other in mesh.hosts if other != host])
            await trio.sleep(1)
            assert len(await spread(session, 10)) == 1

    async def test_a_header_session_has_no_cluster(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            self.listen(mesh)
            for cluster, host in zip("xy", mesh.hosts, strict=True):
                mesh.cluster(cluster)
                mesh.endpoints(cluster, [host])
            mesh.route({"x": 1, "y": 1})
            await trio.sleep(1)
            assert await hosts(channel, times=40, metadata=[("x-session", b64(mesh.hosts[0]))]) == set(mesh.hosts)
