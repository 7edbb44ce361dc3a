"""The calls of a `channel.session()` share one cookie jar and one host (A55)."""

from collections import Counter

import pytest
import trio
from support.mesh import METHOD, Mesh, ask, bidi, method, spread
from support.sessions import in_cookie, two_cookies
from trio.testing import wait_all_tasks_blocked

from trxds import RpcError
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds


async def test_twenty_concurrent_first_calls_of_a_session_go_to_one_host(autojump_clock):
    async with Mesh.run(5) as mesh, mesh.channel() as channel:
        await ask(channel)
        await trio.sleep(1)
        met = Counter()

        async def call(session):
            met[await ask(session)] += 1

        async with channel.session() as session, trio.open_nursery() as calls:
            for _ in range(20):
                calls.start_soon(call, session)
        assert list(met.values()) == [20]


async def test_first_calls_of_a_session_without_wait_for_first_are_spread(autojump_clock):
    async with Mesh.run(5) as mesh, mesh.channel() as channel:
        await ask(channel)
        await trio.sleep(1)
        met = Counter()

        async def call(session):
            met[await ask(session)] += 1

        async with channel.session(wait_for_first=False) as session, trio.open_nursery() as calls:
            for _ in range(20):
                calls.start_soon(call, session)
        assert len(met) == 5


async def test_a_failed_first_call_releases_the_sessions_other_calls(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
        with pytest.raises(RpcError):
            await method(session, "/shop.Cart/Slow")(b"", timeout=0)
        assert await ask(session) == mesh.hosts[0]


async def test_a_first_call_with_invalid_arguments_releases_the_sessions_other_calls(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
        with pytest.raises(TypeError, match="timeout is a number"):
            await ask(session, timeout="5")
        with trio.fail_after(10):
            await ask(session)


async def test_a_cancelled_first_call_releases_the_sessions_other_calls(autojump_clock):
    async def silent(call):
        await trio.sleep_forever()

    async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Silent"] = silent
        with trio.move_on_after(1):
            await method(session, "/shop.Cart/Silent")(b"")
        assert await ask(session) == mesh.hosts[0]


async def cancel(call):
    call.cancel()


async def fail(call):
    with pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
        await call.receive()


@pytest.mark.parametrize("end", [cancel, fail])
async def test_a_first_stream_that_has_ended_releases_the_sessions_other_calls_while_its_block_goes_on(
    end, autojump_clock
):
    async def silent(call):
        await trio.sleep_forever()

    async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Silent"] = silent
        async with bidi(session, "/shop.Cart/Silent").open(timeout=1) as call:
            await end(call)
            began = trio.current_time()
            await ask(session)
            assert trio.current_time() == began


async def test_a_cancelled_waiting_call_does_not_release_the_sessions_other_calls(nursery, autojump_clock):
    async def slow(call):
        await trio.sleep(5)
        await call.send(b"")

    async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
        for server in mesh.servers.values():
            server.handlers["/shop.Cart/Slow"] = slow
        nursery.start_soon(method(session, "/shop.Cart/Slow"), b"")
        await wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await ask(session)
        began = trio.current_time()
        await ask(session)
        assert trio.current_time() - began == pytest.approx(4, abs=0.01)


async def test_the_first_calls_headers_release_the_sessions_other_calls_even_if_unread(nursery, autojump_clock):
    async with (
        Mesh.run(3) as mesh,
        mesh.channel() as channel,
        channel.session() as session,
        bidi(session).open() as call,
    ):
        await call.send(b"only sending")
        with trio.fail_after(1):
            host = await ask(session)
        assert host == call.peer


async def test_cookies_of_jar_and_caller_are_sent_in_one_header(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
        await ask(session)
        await ask(session, metadata=[("cookie", "mine=1"), ("cookie", "yours=2")])
        (header,) = mesh.servers[mesh.hosts[0]].calls[-1].metadata.all("cookie")
        names = [part.split("=")[0] for part in header.split("; ")]
        assert names == ["session", "mine", "yours"]


async def test_two_sessions_have_separate_cookies(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        await ask(channel)
        await trio.sleep(1)
        async with channel.session() as one, channel.session() as other:
            assert {await ask(one), await ask(other)} == set(mesh.hosts)


async def test_a_cookie_ends_with_its_max_age(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.listen(ttl=60)
        (server,) = mesh.servers.values()
        async with mesh.channel() as channel, channel.session() as session:
            await ask(session)
            await trio.sleep(59)
            await ask(session)
            await trio.sleep(2)
            await ask(session)
        assert [len(call.metadata.all("cookie")) for call in server.calls] == [0, 1, 0]


async def test_calls_at_once_after_the_end_of_the_cookies_ttl_meet_one_host(autojump_clock):
    async with Mesh.run(4) as mesh:
        mesh.listen(ttl=60)
        async with mesh.channel() as channel, channel.session() as session:
            await ask(session)
            await trio.sleep(61)
            hosts = []

            async def call():
                hosts.append(await ask(session))

            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(call)
            assert hosts == [session.host] * 8


async def test_one_of_two_cookies_that_ends_leaves_the_host_of_the_other(autojump_clock):
    async with Mesh.run(4) as mesh:
        two_cookies(mesh, in_cookie("one", path="/", ttl="60s"), in_cookie("two", path="/", ttl="600s"))
        async with mesh.channel() as channel, channel.session() as session:
            await ask(session)
            orders = method(session, "/shop.Orders/Get")
            host = await orders(b"")
            await trio.sleep(61)
            await ask(session)
            assert await orders(b"") == host
            assert [key.name for key in session.hosts] == ["two", "one"]


async def test_a_cookie_is_sent_only_to_its_path(autojump_clock):
    async with Mesh.run(2) as mesh:
        mesh.listen(path="/shop.Cart")
        async with mesh.channel() as channel, channel.session() as session:
            await ask(session)
            await method(session, "/shop.Other/Add")(b"")
            await ask(session)
            seen = [call for server in mesh.servers.values() for call in server.calls]
            cookies = sorted((call.path, bool(call.metadata.first("cookie"))) for call in seen)
            assert cookies == [(METHOD, False), (METHOD, True), ("/shop.Other/Add", False)]


async def test_a_valid_session_cookie_gets_no_new_one(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        async with bidi(channel).open(b"") as call:
            first = (await call.wait_initial_metadata()).first("set-cookie")
        assert first.endswith("; HttpOnly; Path=/")
        async with bidi(channel).open(b"", metadata=[("cookie", first)]) as call:
            assert (await call.wait_initial_metadata()).all("set-cookie") == []


async def test_a_handmade_session_cookie_connects_an_idle_host(autojump_clock):
    async with Mesh.run(2) as mesh:
        low, high = mesh.hosts
        mesh.endpoints("cart", xds.locality(low, zone="a"), xds.locality(high, zone="b", priority=1))
        async with mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(1)
            assert mesh.network.attempts[high] == 0
            cookie = f"session={encode(high, 'cart')}"
            assert set(await spread(channel, 5, metadata=[("cookie", cookie)])) == {high}
            assert set(await spread(channel, 5)) == {low}


async def test_the_sweep_releases_an_idle_session_host(autojump_clock):
    async with Mesh.run(2) as mesh:
        low, high = mesh.hosts
        mesh.cluster("cart", idle_timeout=60)
        mesh.endpoints("cart", xds.locality(low, zone="a"), xds.locality(high, zone="b", priority=1))
        async with mesh.channel() as channel:
            await ask(channel, metadata=[("cookie", f"session={encode(high, 'cart')}")])
            await trio.sleep(50)
            assert len(mesh.servers[high].connections) == 1
            await trio.sleep(20)
            assert mesh.servers[high].connections == []


@pytest.mark.parametrize("period", [1, 4.9, 6])
async def test_updates_do_not_delay_the_sweep(autojump_clock, period):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        near, far = mesh.hosts
        mesh.cluster("cart", idle_timeout=10)

        def update(weight):
            mesh.endpoints("cart", xds.locality(near, weight=weight), xds.locality(far, zone="far", priority=1))

        update(1)
        await trio.sleep(1)
        await ask(channel, metadata=[("cookie", f"session={encode(far, 'cart')}")])
        used_at = trio.current_time()
        for number in range(2, 20):
            await trio.sleep(period)
            update(number)
            await trio.sleep(0.01)
            assert bool(mesh.servers[far].connections) is (trio.current_time() < used_at + 10)


async def test_two_updates_around_the_sweep_do_not_delay_it(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel(idle_timeout=None) as channel:
        near, far = mesh.hosts
        mesh.cluster("cart", idle_timeout=600)

        def update(weight):
            mesh.endpoints("cart", xds.locality(near, weight=weight), xds.locality(far, zone="far", priority=1))

        update(1)
        await trio.sleep(1)
        await ask(channel, metadata=[("cookie", f"session={encode(far, 'cart')}")])
        await trio.sleep(598)
        update(2)
        await trio.sleep(1.9)
        assert mesh.servers[far].connections
        await trio.sleep(0.2)
        update(3)
        await trio.sleep(0.1)
        assert not mesh.servers[far].connections


class TestAHostWithTwoAddressesOfWhichOneDoesNotAnswer:
    """Which takes 20 s to be known (RFC 8305 over A75)."""

    @staticmethod
    async def answered(mesh, channel, *addresses):
        """Who answers a cookie with these, and after how many seconds."""
        begun = trio.current_time()
        cookie = f"session={encode(','.join(addresses), 'cart')}"
        return await ask(channel, metadata=[("cookie", cookie)]), trio.current_time() - begun

    @staticmethod
    def put(mesh, near, *addresses):
        first, *more = addresses
        endpoints = xds.endpoints("cart", xds.locality(near), xds.locality(first, zone="far", priority=1))
        endpoint = endpoints["endpoints"][1]["lb_endpoints"][0]["endpoint"]
        split = (address.rsplit(":", 1) for address in more)
        endpoint["additional_addresses"] = [
            {"address": {"socket_address": {"address": ip, "port_value": int(port)}}} for ip, port in split
        ]
        mesh.plane.put(endpoints)

    async def test_the_second_address_of_a_session_host_is_tried_after_250_ms(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            near, dark, light = mesh.hosts
            self.put(mesh, near, dark, light)
            await trio.sleep(1)
            mesh.network.black_hole(dark)
            assert await self.answered(mesh, channel, dark, light) == (light, 0.25)
            assert await self.answered(mesh, channel, dark, light) == (light, 0)

    async def test_the_second_address_of_a_session_host_is_not_tried_if_the_first_connects(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            near, first, second = mesh.hosts
            self.put(mesh, near, first, second)
            await trio.sleep(1)
            assert await self.answered(mesh, channel, first, second) == (first, 0)
            await trio.sleep(10)
            assert mesh.network.attempts[second] == 0

    async def test_many_rpcs_waiting_for_a_session_host_make_one_connection_attempt(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            near, dark, light = mesh.hosts
            self.put(mesh, near, dark, light)
            await trio.sleep(1)
            mesh.network.black_hole(dark)
            met = []

            async def call():
                met.append(await self.answered(mesh, channel, dark, light))

            async with trio.open_nursery() as nursery:
                for _ in range(50):
                    nursery.start_soon(call)
            assert met == [(light, 0.25)] * 50
            assert (mesh.network.attempts[dark], mesh.network.attempts[light]) == (1, 1)


async def test_a_host_that_is_down_makes_its_session_move(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
        host = await ask(session)
        await trio.sleep(1)
        mesh.network.refuse(host)
        mesh.network.cut(host)
        await trio.sleep(1)
        other = next(iter(await spread(session, 3)))
        assert other != host


@pytest.mark.parametrize("path", [METHOD.lstrip("/"), "", "/a", "/a/", "//a", "/a/b/c", "/a/b c", "/a/b\n", "/ä/b"])
async def test_method_and_explain_check_the_method_path(path):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        with pytest.raises(ValueError, match="not of the form /package"):
            channel.method(path)
        with pytest.raises(ValueError, match="not of the form /package"):
            await channel.explain(path)


async def test_a_session_leaves_a_dead_host_however_short_the_idle_timeout(autojump_clock):
    async with Mesh.run(2) as mesh:
        low, high = mesh.hosts
        mesh.cluster("cart", idle_timeout=1)
        mesh.endpoints("cart", xds.locality(low, zone="a"), xds.locality(high, zone="b", priority=1))
        mesh.network.black_hole(high)
        async with mesh.channel() as channel:
            cookie = f"session={encode(high, 'cart')}"
            # A connection attempt is given 20 s, and the sweep comes every 5 s.
            assert await ask(channel, metadata=[("cookie", cookie)], timeout=30) == low
