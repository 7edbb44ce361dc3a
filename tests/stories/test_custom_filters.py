"""A program's own HTTP filters decide about calls, change them, and follow them to their end."""

import pytest
import trio
import trio.testing
from support.mesh import METHOD, Mesh, ask, bidi, method
from support.own_filters import OWN, TENANT, Starts, Tenant, after, failure, keep_metadata, listen, own, recorded
from support.tasks import task_names

from trxds import RpcError, Status, StatusCode
from trxds.filters import FilterCall, FilterType, Override
from trxds.testing import resources as xds

DENIED = Status(StatusCode.PERMISSION_DENIED, "not today")


async def test_a_filter_sees_a_call_that_ended_well_counted_once(autojump_clock):
    counts = []

    class Counting(FilterCall):
        def on_close(self, status):
            counts.append(channel._state.calls.counts)

    async with Mesh.run(1) as mesh:
        listen(mesh, "count")
        async with mesh.channel(http_filters=own(lambda call: Counting())) as channel:
            await ask(channel)
            assert counts == [channel._state.calls.counts]


# -- before the pick


async def test_a_filter_changes_the_metadata_that_reaches_the_host(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, xds.custom_filter("tenant", TENANT, header="X-Tenant", value="anna"))
        seen = keep_metadata(mesh)
        async with mesh.channel(http_filters={TENANT: FilterType(Tenant)}) as channel:
            await ask(channel, metadata=[("user", "7")])
            await ask(channel, metadata=[("user", "7")])
        assert [each[-2:] for each in seen] == [(("user", "7"), ("x-tenant", "anna"))] * 2


async def test_a_status_of_a_filter_ends_the_call_before_it_has_a_host(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, "deny")
        async with mesh.channel(http_filters=own(lambda call: DENIED)) as channel:
            assert await failure(channel, wait_for_ready=True) == DENIED
        assert not any(server.calls for server in mesh.servers.values())


@pytest.mark.parametrize("result", [None, DENIED])
async def test_a_filter_delays_a_call_and_decides_then(result, autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, "slow")
        async with mesh.channel(http_filters=own(lambda call: after(2, result))) as channel:
            before = trio.current_time()
            if result is None:
                assert await ask(channel) in mesh.hosts
            else:
                assert await failure(channel) == DENIED
            assert 2 <= trio.current_time() - before < 2.1


async def test_the_deadline_runs_while_a_filter_waits_and_its_message_names_the_filter(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, "slow")
        async with mesh.channel(http_filters=own(lambda call: after(10))) as channel:
            status = await failure(channel, timeout=1)
            assert status.code is StatusCode.DEADLINE_EXCEEDED
            assert status.message.endswith('waiting for the filter "slow" (Starts)')


async def test_a_filter_sees_the_drawn_cluster_and_switches_to_another_of_the_route(autojump_clock):
    drawn = []

    def start(call):
        drawn.append(call.cluster)
        call.cluster = "blue"

    async with Mesh.run(2) as mesh:
        listen(mesh, "blue")
        mesh.route({"green": 999_999, "blue": 1})  # so that chance gives green
        for name, host in zip(("green", "blue"), mesh.hosts, strict=True):
            mesh.cluster(name)
            mesh.endpoints(name, [host])
        async with mesh.channel(http_filters=own(start)) as channel:
            assert {await ask(channel) for _ in range(10)} == {mesh.hosts[1]}
            assert set(drawn) == {"green"}


async def test_a_filter_chooses_the_host_as_the_session_filter_does(autojump_clock):
    def start(call):
        call.override = Override((mesh.hosts[2],))

    async with Mesh.run(3) as mesh:
        listen(mesh, "pin")
        mesh.cluster("cart", override_statuses=["HEALTHY", "UNKNOWN"])
        async with mesh.channel(http_filters=own(start)) as channel:
            assert {await ask(channel) for _ in range(6)} == {mesh.hosts[2]}


async def test_filters_run_once_for_a_call_however_many_attempts_it_makes(autojump_clock):
    seen, attempts = [], []

    async def fail_twice(call):
        attempts.append(1)
        if len(attempts) < 3:
            call.abort(StatusCode.UNAVAILABLE, "busy")
        async for message in call:
            await call.send(message)

    async with Mesh.run(1) as mesh:
        listen(mesh, "a")
        policy = {"retry_on": "unavailable", "num_retries": 3}
        entry = xds.route("cart")
        entry["route"]["retry_policy"] = policy
        mesh.route(entry)
        mesh.servers[mesh.hosts[0]].fallback = fail_twice
        async with mesh.channel(http_filters=recorded(seen)) as channel:
            await ask(channel)
    assert len(attempts) == 3
    assert seen == ["a sends ", "a headers", "a receives a", "a trailers OK", "a closed OK"]


# -- to the end of the call


async def test_filters_see_and_change_messages_and_metadata_the_first_one_outermost(autojump_clock):
    seen = []
    async with Mesh.run(1) as mesh:
        listen(mesh, "a", "b")
        sent = keep_metadata(mesh)
        async with mesh.channel(http_filters=recorded(seen)) as channel:
            reply, call = await method(channel).with_call(b"-")
        assert len(sent) == 1
        assert reply == b"-abba"
        assert call.initial_metadata.all("x-by") == ["b", "a"]
        assert call.trailing_metadata.all("x-end") == ["b", "a"]
    assert seen == [
        *("a sends -", "b sends -a"),
        *("b headers", "a headers", "b receives -ab", "a receives -abb"),
        *("b trailers OK", "a trailers OK", "b closed OK", "a closed OK"),
    ]


async def test_filters_see_each_message_of_a_stream(autojump_clock):
    seen = []
    async with Mesh.run(1) as mesh:
        listen(mesh, "a")
        keep_metadata(mesh)
        async with mesh.channel(http_filters=recorded(seen)) as channel, bidi(channel).open() as call:
            for request in (b"1", b"2"):
                await call.send(request)
                assert await call.receive() == request + b"aa"
            call.done_sending()
            assert await call.receive() is None
    assert [each for each in seen if "s" in each.split()[1]] == [
        *("a sends 1", "a headers", "a receives 1a", "a sends 2", "a receives 2a", "a trailers OK", "a closed OK")
    ]


async def test_a_trailers_only_response_has_trailers_and_no_headers(autojump_clock):
    async def refuse(call):
        call.abort(StatusCode.NOT_FOUND, "no cart")

    seen = []
    async with Mesh.run(1) as mesh:
        listen(mesh, "a")
        mesh.servers[mesh.hosts[0]].fallback = refuse
        async with mesh.channel(http_filters=recorded(seen)) as channel:
            assert (await failure(channel)).code is StatusCode.NOT_FOUND
    assert seen == ["a sends ", "a trailers NOT_FOUND", "a closed NOT_FOUND"]


async def test_a_filter_sees_the_cookie_of_the_session_filter_below_it(autojump_clock):
    cookies = []

    def start(call):
        def respond(metadata):
            cookies.append(metadata.first("set-cookie") is not None)
            return metadata

        return respond

    async with Mesh.run(1) as mesh:
        listen(mesh, "above", xds.stateful_session())
        async with mesh.channel(http_filters=own(start)) as channel:
            await ask(channel)
            listen(mesh, xds.stateful_session(), "below")
            await trio.sleep(1)
            await ask(channel)
    assert cookies == [True, False]


@pytest.mark.parametrize(
    "end", ["deadline", "cancelled", "closed", "no host", "later filter", "filter's wait", "cancel()"]
)
async def test_a_filter_learns_the_end_of_its_call_once_whatever_it_is(end, autojump_clock):
    seen = []

    async def hang(call):
        await trio.sleep_forever()

    def start(call):
        if end == "later filter":
            return DENIED
        return after(10) if end == "filter's wait" else None

    types = recorded(seen) | {TENANT: FilterType(lambda settings, context: Starts(start))}
    async with Mesh.run(1) as mesh:
        listen(mesh, "a", xds.custom_filter("b", TENANT))
        mesh.servers[mesh.hosts[0]].fallback = hang
        if end == "no host":
            mesh.endpoints("cart")
        async with mesh.channel(http_filters=types) as channel:
            match end:
                case "cancelled":
                    with trio.move_on_after(1):
                        await ask(channel)
                case "closed":
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(ends_with_its_session, channel)
                case "cancel()":
                    async with bidi(channel).open() as call:
                        call.cancel()
                case _:
                    await failure(channel, timeout=1)
    codes = {"no host": "UNAVAILABLE", "later filter": "PERMISSION_DENIED"}
    codes |= dict.fromkeys(("closed", "cancel()"), "CANCELLED")
    assert [each for each in seen if "closed" in each] == [f"a closed {codes.get(end, 'DEADLINE_EXCEEDED')}"]


async def ends_with_its_session(channel):
    async def fails():
        with pytest.raises(RpcError, match="session closed"):
            await ask(session)

    async with trio.open_nursery() as nursery, channel.session() as session:
        nursery.start_soon(fails)
        await trio.sleep(1)


async def test_a_filter_learns_the_end_of_a_call_that_is_cancelled_while_a_later_filter_waits(autojump_clock):
    seen = []
    types = recorded(seen) | {TENANT: FilterType(lambda settings, context: Starts(lambda call: after(10)))}
    async with Mesh.run(1) as mesh:
        listen(mesh, "a", xds.custom_filter("b", TENANT))
        async with mesh.channel(http_filters=types) as channel:
            with trio.move_on_after(1) as scope:
                await ask(channel)
    assert (scope.cancelled_caught, seen) == (True, ["a closed CANCELLED"])


async def test_a_call_for_which_two_filters_waited_holds_no_routes_any_more(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, "a", "b")
        async with mesh.channel(http_filters=own(lambda call: after(1))) as channel:
            await ask(channel)
            mesh.route(xds.route("cart", prefix="/shop"))
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(name for name in task_names() if name.startswith("route table/")) == ["route table/2"]


async def test_the_limit_of_messages_counts_what_filters_make_of_them(autojump_clock):
    class Longer(FilterCall):
        def on_send(self, message):
            return message * 10

    async with Mesh.run(1) as mesh:
        listen(mesh, "longer")
        async with mesh.channel(http_filters=own(lambda call: Longer()), max_send_size=99) as channel:
            with pytest.raises(RpcError, match="message of 100 bytes is larger than the limit of 99"):
                await method(channel)(bytes(10))


async def test_a_call_whose_reply_a_filter_cannot_take_has_not_succeeded(autojump_clock):
    class Fails(FilterCall):
        def on_receive(self, message):
            raise ZeroDivisionError

    async with Mesh.run(1) as mesh:
        listen(mesh, "fails")
        async with mesh.channel(http_filters=own(lambda call: Fails())) as channel:
            assert (await failure(channel)).code is StatusCode.INTERNAL
            assert channel._state.calls.counts.succeeded == 0


async def test_the_pick_of_a_session_that_moves_is_a_call_that_a_filter_sees_end(autojump_clock):
    seen = []
    async with Mesh.run(2) as mesh:
        listen(mesh, "a", xds.stateful_session())
        async with mesh.channel(http_filters=recorded(seen)) as channel, channel.session() as session:
            await ask(session)
            seen.clear()
            async with session.moving():
                pass
    assert seen == ["a closed CANCELLED"]


async def test_a_call_that_is_open_keeps_the_filters_that_it_began_with(autojump_clock):
    seen = []
    async with Mesh.run(1) as mesh:
        listen(mesh, "a")
        keep_metadata(mesh)
        async with mesh.channel(http_filters=recorded(seen)) as channel:
            async with bidi(channel).open() as call:
                await call.send(b"1")
                assert await call.receive() == b"1aa"
                listen(mesh, "b")
                await trio.sleep(1)
                await call.send(b"2")
                assert await call.receive() == b"2aa"
            assert seen[-1] == "a closed CANCELLED"
            assert await ask(channel) == "bb"


async def test_a_session_stays_on_its_host_with_filters_around_the_session_filter(autojump_clock):
    async with Mesh.run(3) as mesh:
        listen(mesh, xds.custom_filter("one", TENANT, header="a"), xds.stateful_session(), "slow")
        types = own(lambda call: after(1)) | {TENANT: FilterType(Tenant)}
        async with mesh.channel(http_filters=types) as channel, channel.session() as session:
            assert len({await ask(session) for _ in range(6)}) == 1


# -- how long a filter lives


async def test_a_filter_is_made_once_for_its_configuration_and_what_is_shared_outlives_updates(autojump_clock):
    made = []

    def make(settings, context):
        made.append((context.name, context.target, settings))
        context.shared.setdefault("made", []).append(settings)
        return Starts(lambda call: call.__setattr__("metadata", [("x-made", str(len(context.shared["made"])))]))

    async with Mesh.run(1) as mesh:
        listen(mesh, xds.custom_filter("own", OWN, n=1))
        seen = keep_metadata(mesh)
        async with mesh.channel(http_filters={OWN: FilterType(make)}) as channel:
            await ask(channel)
            await ask(channel)
            listen(mesh, xds.custom_filter("own", OWN, n=2))
            await trio.sleep(1)
            await ask(channel)
    assert made == [("own", "xds:///shop", {"n": 1}), ("own", "xds:///shop", {"n": 2})]
    assert [each.first("x-made") for each in seen] == ["1", "1", "2"]


async def test_a_filter_with_nothing_to_do_costs_its_calls_nothing(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, "own")
        async with mesh.channel(http_filters={OWN: FilterType(lambda settings, context: None)}) as channel:
            await ask(channel)
            explanation = await channel.explain(METHOD)
            assert explanation.filters == ()
