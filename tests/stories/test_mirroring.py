"""Mirroring: copies of calls go to another cluster, and the calls do not notice (Envoy's request_mirror_policies)."""

import pytest
import trio
from support.mesh import METHOD, ask, method
from support.mirroring import mirrored, settled, shadowed, share
from support.sessions import listen

from trxds import Mirroring, RpcError, StatusCode
from trxds.client.mirror import Mirror

FAULT = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault"


async def test_a_copy_of_a_call_goes_to_the_mirror_cluster(autojump_clock):
    async with shadowed() as made:
        assert await method(made.channel)(b"milk") == f"{made.mesh.hosts[0]} milk".encode()
        await settled()
        assert made.shadow.requests == [b"milk"]
        assert made.shadow.calls[0].path == METHOD
        [note] = made.notes.all
        assert (note.cluster, note.result, note.status.code) == ("shadow", "completed", StatusCode.OK)


async def test_without_the_argument_no_call_is_copied(autojump_clock):
    async with shadowed(mirroring=None) as made:
        await ask(made.channel)
        await settled()
        assert (made.shadow.calls, made.notes.all) == ([], [])
        assert all("shadow" not in each.names for each in made.mesh.plane.requests)


async def test_a_share_of_the_calls_is_copied(autojump_clock):
    async with shadowed({"cluster": "shadow", **share(25)}) as made:
        for _ in range(200):
            await ask(made.channel)
        await settled()
        assert 20 <= len(made.shadow.calls) <= 80  # five deviations from 50


async def test_a_share_of_zero_copies_nothing(autojump_clock):
    async with shadowed({"cluster": "shadow", **share(0)}) as made:
        await ask(made.channel)
        await settled()
        assert not made.shadow.calls


async def test_each_policy_of_a_route_makes_a_copy(autojump_clock):
    async with shadowed({"cluster": "shadow"}, {"cluster": "cart"}) as made:
        await ask(made.channel)
        await settled()
        assert sorted(each.cluster for each in made.notes.all) == ["cart", "shadow"]
        assert len(made.shadow.calls) == 1


# -- the call does not notice


async def test_a_call_does_not_wait_for_its_copy(autojump_clock):
    async with shadowed() as made:
        made.shadow.seconds = 5
        before = trio.current_time()
        await ask(made.channel)
        assert trio.current_time() - before < 0.1
        assert not made.notes.all
        await trio.sleep(6)
        assert made.notes.results == ["completed"]


async def test_the_status_of_a_copy_does_not_reach_the_call(autojump_clock):
    async with shadowed() as made:
        made.shadow.code = StatusCode.UNAVAILABLE
        assert await ask(made.channel) == made.mesh.hosts[0]
        await settled()
        assert [each.status.code for each in made.notes.all] == [StatusCode.UNAVAILABLE]


async def test_a_failed_copy_is_not_repeated(autojump_clock):
    retrying = mirrored(retry_policy={"retry_on": "unavailable", "num_retries": 3})
    async with shadowed() as made:
        made.mesh.route(retrying)
        made.shadow.code = StatusCode.UNAVAILABLE
        await ask(made.channel)
        await trio.sleep(5)
        assert len(made.shadow.calls) == 1


async def test_a_bug_in_a_copy_is_logged_and_harms_no_call(autojump_clock, monkeypatch, caplog):
    async def broken(self, stream):
        raise KeyError("bug")

    monkeypatch.setattr(Mirror, "_exchange", broken)
    async with shadowed() as made:
        assert await ask(made.channel) == made.mesh.hosts[0]
        await settled()
        assert await ask(made.channel) == made.mesh.hosts[0]
        await settled()
        assert made.notes.results == ["not_sent", "not_sent"]
    assert f"a copy of the call to {METHOD} raised; please report it" in caplog.text


async def test_a_retry_is_not_copied_again(autojump_clock):
    failures = [StatusCode.UNAVAILABLE] * 2

    async def flaky(call):
        async for _ in call:
            pass
        if failures:
            call.abort(failures.pop(), "try again")
        await call.send(b"ok")

    async with shadowed(knobs={"handlers": {METHOD: flaky}}) as made:
        made.mesh.route(mirrored(retry_policy={"retry_on": "unavailable", "num_retries": 3}))
        assert await ask(made.channel) == "ok"
        await trio.sleep(5)
        assert not failures
        assert len(made.shadow.calls) == 1


async def test_a_cookie_of_a_copy_does_not_reach_the_session(autojump_clock):
    async with shadowed(sessions=True, hosts=2) as made:
        made.shadow.headers = [("set-cookie", "session=c2hhZG93; Path=/"), ("set-cookie", "theirs=1")]
        async with made.channel.session() as session:
            first = await ask(session)
            await settled()
            assert {await ask(session) for _ in range(5)} == {first}
            assert session.host == first
        assert len(made.shadow.calls) == 6


async def test_a_load_report_of_a_copy_does_not_reach_the_call(autojump_clock):
    async with shadowed() as made:
        made.shadow.trailers = [("endpoint-load-metrics", "TEXT cpu_utilization=0.9"), ("theirs", "1")]
        _, call = await method(made.channel).with_call(b"")
        await settled()
        assert call.trailing_metadata.first("theirs") is None
        assert made.notes.results == ["completed"]


async def test_a_call_that_finds_no_host_is_not_copied(autojump_clock):
    async with shadowed() as made:
        made.mesh.endpoints("cart")
        with pytest.raises(RpcError):
            await ask(made.channel)
        await settled()
        assert not made.shadow.calls


async def never(call):
    await trio.sleep_forever()


async def test_a_cancelled_call_leaves_its_complete_copy_alone(autojump_clock):
    async with shadowed(knobs={"handlers": {METHOD: never}}) as made:
        made.shadow.seconds = 2
        with trio.move_on_after(1) as gone:
            await ask(made.channel)
        assert gone.cancelled_caught
        await trio.sleep(2)
        assert made.notes.results == ["completed"]


async def test_a_channel_that_closes_ends_its_copies(autojump_clock):
    async with shadowed() as made:
        made.shadow.seconds = 10
        async with made.mesh.channel(mirroring=Mirroring()) as other:
            await ask(other)
            await settled()
            before = trio.current_time()
        assert trio.current_time() - before < 1
        await settled()
        assert made.shadow.reset == [[b""]]


async def test_a_copy_that_waits_for_a_host_ends_unreported_with_the_channel(autojump_clock, caplog):
    caplog.set_level("INFO", "trxds.client")
    async with shadowed() as made:
        made.mesh.network.black_hole("10.0.2.9:50051")
        made.mesh.endpoints("shadow", ["10.0.2.9:50051"])
        await ask(made.channel)
        await settled()
    assert caplog.text == ""


async def test_a_call_that_a_fault_ends_is_not_copied(autojump_clock):
    async with shadowed() as made:
        abort = {"grpc_status": 10, "percentage": {"numerator": 100}}
        listen(made.mesh, {"name": "fault", "typed_config": {"@type": FAULT, "abort": abort}})
        with pytest.raises(RpcError):
            await ask(made.channel)
        await settled()
        assert not made.shadow.calls
