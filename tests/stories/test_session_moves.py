"""A program moves its session on purpose: it hands state over to a new host."""

from contextlib import AsyncExitStack

import pytest
import trio
from support.custom_policies import NAME, Lowest, ToLowest, asks_for
from support.mesh import Mesh, ask, bidi, spread
from support.sessions import b64, in_cookie, in_header, listen, session_filter
from support.tasks import task_names
from support.two_cookies import A, B, ask_orders, session_of_two_cookies
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds import RepinReason, RpcError, SessionMoved, StatusCode
from trxds.policies import EndpointList, PolicyType
from trxds.testing import resources as xds


class TestMoving:
    async def test_the_block_has_calls_to_the_old_host_and_to_a_new_one(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            async with session.moving() as (old, new):
                assert (old.host, old.cluster) == (host, "cart")
                assert new.host != host
                assert set(await spread(old, 5)) == {old.host}
                assert set(await spread(new, 5)) == {new.host}

    async def test_leaving_the_block_switches_all_later_calls(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            async with session.moving() as (old, new):
                assert await ask(session) == old.host
            assert session.host == new.host
            assert set(await spread(session, 5)) == {new.host}

    async def test_the_block_need_not_call_the_new_host(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            async with session.moving() as (_, new):
                pass
            assert session.host == await ask(session) == new.host

    async def test_an_exception_leaves_the_session_where_it_was(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            with pytest.raises(KeyError):
                async with session.moving() as (_, new):
                    await ask(new)
                    raise KeyError
            assert session.host == await ask(session) == host

    async def test_calls_under_way_stay_where_they_are(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            async with bidi(session).open() as call:
                await call.send(b"1")
                await call.receive()
                async with session.moving() as (_, new):
                    pass
                await call.send(b"2")
                assert await call.receive() == f"{host} 2".encode()
            assert await ask(session) == new.host

    async def test_a_stream_to_the_new_host_that_began_in_the_block_goes_on(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            async with session.moving() as (_, new):
                opening = bidi(new).open()
                call = await opening.__aenter__()
            await call.send(b"1")
            assert await call.receive() == f"{new.host} 1".encode()
            await opening.__aexit__(None, None, None)

    async def test_nothing_is_kept_of_the_blocks_calls(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            async with session.moving() as (old, new):
                await ask(old)
                await ask(new)
                assert not session._session.has_open_calls

    async def test_no_call_begins_on_the_blocks_hosts_after_it(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            async with session.moving() as (old, new):
                pass
            for each in (old, new):
                with pytest.raises(trio.ClosedResourceError):
                    await ask(each)

    async def test_without_another_host_it_raises_before_the_block(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            with pytest.raises(RpcError) as raised:
                async with session.moving():
                    raise AssertionError("the block must not run")
            assert raised.value.status.code is StatusCode.UNAVAILABLE
            assert f"the session cannot leave {host}" in raised.value.status.message
            assert await ask(session) == host

    async def test_a_second_move_at_a_time_is_an_error(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            async with session.moving():
                with pytest.raises(RuntimeError, match="moving already"):
                    async with session.moving():
                        pass

    async def test_if_the_old_host_dies_its_calls_fail_and_the_new_one_goes_on(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            async with session.moving() as (old, new):
                mesh.network.refuse(old.host)
                mesh.network.cut(old.host)
                await wait_all_tasks_blocked()
                with pytest.raises(RpcError) as raised:
                    await ask(old)
                assert raised.value.status.code is StatusCode.UNAVAILABLE
                assert await ask(new) == new.host
            assert await ask(session) == new.host

    async def test_a_new_host_that_dies_fails_its_calls(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            with pytest.raises(RpcError):
                async with session.moving() as (_, new):
                    mesh.network.refuse(new.host)
                    mesh.network.cut(new.host)
                    await wait_all_tasks_blocked()
                    await ask(new)
            assert await ask(session) == host

    async def test_a_draining_host_can_be_left(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            mesh.cluster("cart", override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"])
            async with mesh.channel() as channel, channel.session() as session:
                host = await ask(session)
                mesh.endpoints("cart", xds.locality(*mesh.hosts, health={host: "DRAINING"}))
                await session.wait_draining()
                async with session.moving() as (old, new):
                    assert await ask(old) == host
                assert await ask(session) == new.host != host

    async def test_no_change_is_the_cause_of_a_move_though_the_host_is_draining(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            mesh.cluster("cart", override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"])
            async with mesh.channel() as channel, channel.session() as session:
                host = await ask(session)
                mesh.endpoints("cart", xds.locality(*mesh.hosts, health={host: "DRAINING"}))
                assert (await session.wait_draining()).change
                events = session.events()
                async with session.moving():
                    pass
                moved = await anext(events)
                assert (moved.reason, moved.change) == (RepinReason.REQUESTED, "")

    @pytest.mark.parametrize("policy", ["RING_HASH", "LEAST_REQUEST"])
    async def test_every_policy_finds_another_host(self, policy, autojump_clock):
        async with Mesh.run(3) as mesh:
            mesh.plane.put(xds.cluster("cart") | {"lb_policy": policy})
            by_user = {"cluster": "cart", "hash_policy": [{"header": {"header_name": "user"}}]}
            mesh.route(xds.route("cart") | {"route": by_user})
            async with mesh.channel() as channel, channel.session() as session:
                host = await ask(session, metadata=[("user", "ann")])
                async with session.moving() as (_, new):
                    assert await ask(new) == new.host != host

    async def test_the_new_host_is_picked_by_the_route_of_the_first_call(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            mesh.cluster("gold")
            mesh.endpoints("gold", mesh.hosts[1:])
            gold = {"prefix": "", "headers": [{"name": "tier", "string_match": {"exact": "gold"}}]}
            mesh.route(xds.route("gold") | {"match": gold}, xds.route("cart"))
            async with mesh.channel() as channel, channel.session() as session:
                await ask(session, metadata=[("tier", "gold")])
                async with session.moving() as (old, new):
                    assert (old.cluster, new.cluster) == ("gold", "gold")

    async def test_a_move_is_an_event(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            events = session.events()
            async with session.moving() as (old, new):
                await ask(new)
            event = await anext(events)
            assert isinstance(event, SessionMoved)
            assert (event.old.host, event.new.host, event.reason) == (old.host, new.host, RepinReason.REQUESTED)

    async def test_a_session_by_header_moves_too(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            listen(mesh, session_filter(state=in_header("x-session")))
            async with mesh.channel() as channel, channel.session() as session:
                host = await ask(session)
                async with session.moving() as (old, new):
                    assert (await ask(old), await ask(new)) == (host, new.host)
                assert await ask(session) == new.host != host

    async def test_a_session_of_two_cookies_says_which_one_moves(self, autojump_clock):
        async with session_of_two_cookies() as (_, session):
            with pytest.raises(ValueError, match=r"say which one"):
                async with session.moving():
                    pass
            before = dict(session.hosts)
            async with session.moving(B) as (_, new):
                assert await ask_orders(new) == new.host
            assert session.hosts[A] == before[A]
            assert session.hosts[B].host == new.host != before[B].host

    async def test_before_the_first_response_there_is_nothing_to_move(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            with pytest.raises(ValueError, match="make a call first"):
                async with session.moving():
                    pass

    async def test_it_holds_nothing_any_more_whether_it_finds_a_host_or_not(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            async with session.moving():
                pass
            mesh.endpoints("cart", [session.host])
            await wait_all_tasks_blocked()
            with pytest.raises(RpcError):
                async with session.moving():
                    pass
            assert not channel._state.calls.open and not session._session.has_open_calls
            mesh.cluster("orders")
            mesh.endpoints("orders", mesh.hosts)
            mesh.route(xds.route("orders"))
            await wait_all_tasks_blocked()
            assert {name for name in task_names() if name.startswith("cluster/")} == {"cluster/orders"}

    async def test_the_blocks_calls_meet_its_hosts_also_when_the_cookies_time_is_over(self, autojump_clock):
        async with Mesh.run(4) as mesh:
            listen(mesh, session_filter(state=in_cookie(ttl="10s")))
            async with mesh.channel() as channel, channel.session() as session:
                await ask(session)
                async with session.moving() as (old, new):
                    await trio.sleep(20)
                    assert await spread(old, 5) == {old.host: 5}
                    assert await spread(new, 5) == {new.host: 5}

    async def test_the_blocks_calls_meet_its_hosts_whatever_session_their_own_headers_name(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            listen(mesh, session_filter(state=in_header("x-session")))
            async with mesh.channel() as channel, channel.session() as session:
                await ask(session)
                async with session.moving() as (old, new):
                    named = [("x-session", b64(f"{new.host};cart"))]
                    assert await ask(old, metadata=named) == old.host

    async def test_without_a_session_filter_it_says_so(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            listen(mesh)
            await wait_all_tasks_blocked()
            with pytest.raises(RpcError, match="the session filter takes no part in the call any more"):
                async with session.moving():
                    pass

    async def test_the_blocks_calls_fail_once_there_is_no_session_filter_any_more(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            async with session.moving() as (old, _):
                listen(mesh)
                await wait_all_tasks_blocked()
                with pytest.raises(RpcError, match="the configuration has no session filter any more"):
                    await ask(old)

    async def test_without_a_route_it_raises_the_status_of_calls(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            mesh.route(xds.route("cart", prefix="/other"))
            await wait_all_tasks_blocked()
            with pytest.raises(RpcError, match="No matching route"):
                async with session.moving():
                    pass

    async def test_it_does_not_wait_for_another_configuration(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            mesh.plane.remove("LDS", "shop")
            await wait_all_tasks_blocked()
            with trio.fail_after(1), pytest.raises(RpcError, match="LDS"):
                async with session.moving():
                    pass

    async def test_an_idle_channel_wakes_up_for_it(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel(idle_timeout=60) as channel, channel.session() as session:
            host = await ask(session)
            await trio.sleep(100)
            async with session.moving() as (_, new):
                assert new.host != host

    async def test_a_channel_is_not_idle_while_a_move_waits_for_a_host(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel(idle_timeout=5) as channel, trio.open_nursery() as nursery:

            async def move(session):
                async with session.moving():
                    raise AssertionError("the host does not answer")

            async with channel.session() as session:
                await ask(session)
                mesh.network.black_hole("10.9.9.9:80")
                mesh.endpoints("cart", [*mesh.hosts, "10.9.9.9:80"])
                await wait_all_tasks_blocked()
                nursery.start_soon(move, session)
                await trio.sleep(15)
                assert channel.state is trxds.Connectivity.READY
                nursery.cancel_scope.cancel()

    async def test_the_pick_of_a_move_has_its_time(self, autojump_clock):
        times = []

        class Picker(Lowest):
            def pick(self, call):
                times.append(call.now)
                return super().pick(call)

        class Policy(ToLowest):
            def __init__(self, channel_control):
                super().__init__(channel_control)
                self.endpoints = EndpointList(lambda ready: Picker(tuple(each.host for each in ready.values())))

        async with Mesh.run(2) as mesh:
            asks_for(mesh)
            policies = {NAME: PolicyType(Policy)}
            async with mesh.channel(policies=policies) as channel, channel.session() as session:
                await ask(session)
                await trio.sleep(60)
                times.clear()
                async with session.moving():
                    assert set(times) == {trio.current_time()}

    async def test_a_session_that_a_call_moves_meanwhile_leaves_the_host_that_it_has_then(self, autojump_clock):
        async with Mesh.run(4) as mesh:
            first, late, *orders = mesh.hosts
            mesh.network.black_hole("10.9.9.9:80")
            mesh.endpoints("cart", [first, "10.9.9.9:80"])
            mesh.cluster("orders")
            mesh.endpoints("orders", orders)
            mesh.route(xds.route("orders", prefix="/shop.Orders"), xds.route("cart"))
            async with mesh.channel() as channel, channel.session() as session, trio.open_nursery() as nursery:

                async def move():
                    async with session.moving() as (old, new):
                        assert {old.host, new.host} == set(orders)

                assert await ask(session) == first
                nursery.start_soon(move)
                await wait_all_tasks_blocked()  # it waits for the host that does not answer
                await ask_orders(session)
                mesh.endpoints("cart", [first, late])

    async def test_after_the_session_there_is_nothing_to_move(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            async with channel.session() as session:
                await ask(session)
            with pytest.raises(trio.ClosedResourceError, match="the session's block is over"):
                async with session.moving():
                    pass

    async def test_a_session_that_has_ended_without_a_host_says_that_it_is_over(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            async with channel.session() as session:
                pass
            with pytest.raises(trio.ClosedResourceError, match="the session's block is over"):
                async with session.moving():
                    pass

    async def test_a_move_whose_session_has_ended_before_it_moves_nothing(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.sessions(max=1) as pool:
            async with pool.session("anna") as session:
                host = await ask(session)
                move = AsyncExitStack()
                await move.enter_async_context(session.moving())
            await move.aclose()
            async with pool.session("anna") as session:
                assert session.host == host

    async def test_the_end_of_the_session_ends_a_move_that_waits_for_a_host(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:

            async def move(session):
                with pytest.raises(RpcError, match="session closed"):
                    async with session.moving():
                        pass

            async with channel.session() as session:
                await ask(session)
                mesh.network.black_hole("10.9.9.9:80")
                mesh.endpoints("cart", [*mesh.hosts, "10.9.9.9:80"])
                await wait_all_tasks_blocked()
                nursery.start_soon(move, session)
                await wait_all_tasks_blocked()
                assert session._session.has_open_calls

    async def test_the_end_of_the_session_ends_the_blocks_calls(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:

            async def hold(old, started):
                with pytest.raises(RpcError) as raised:
                    async with bidi(old).open() as call:
                        started.set()
                        await call.receive()
                assert raised.value.status.message == "session closed"

            async with channel.session() as session:
                await ask(session)
                async with session.moving() as (old, _):
                    started = trio.Event()
                    nursery.start_soon(hold, old, started)
                    await started.wait()

    async def test_a_call_that_was_sent_before_the_move_does_not_move_the_session_again(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            old = await ask(session)
            mesh.network.black_hole(old)
            mesh.network.cut(old)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, session)  # waits for the old host, and goes to any other when it is given up
                await wait_all_tasks_blocked()
                events = session.events()
                async with session.moving() as (_, new):
                    pass
            assert session.host == new.host
            assert isinstance(await anext(events), SessionMoved)
            with trio.move_on_after(1) as waited:
                await anext(events)
            assert waited.cancelled_caught
