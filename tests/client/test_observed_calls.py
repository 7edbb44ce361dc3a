"""Observers get the events of calls in order; those of an attempt end before the call's."""

from types import SimpleNamespace

import pytest
import trio
from support.mesh import METHOD, Mesh, ask, bidi, method
from support.method_config import configured, for_all
from support.watched_calls import watched
from support.watching import Watcher
from trio.testing import wait_all_tasks_blocked

from trxds import Observer, RpcError, Status, StatusCode
from trxds.client.call_telemetry import CallTelemetry
from trxds.client.rpc import Rpc
from trxds.core.observe import AttemptObserver, CallObserver, CallStarted
from trxds.core.observers import Observers
from trxds.lb.pick import Complete, Fail, PickArgs
from trxds.testing import resources as xds
from trxds.transport.h2_engine import ErrorCode

FAIL = "/shop.Cart/Fail"
OF_A_CALL = ("call", "resolution", "attempt", "delayed", "picked", "sent", "received", "backoff", "ended", "over")


class Script:
    """Ends each call with the next of these codes; OK is a reply."""

    def __init__(self, *codes):
        self.codes = list(codes)
        self.headers = []

    async def __call__(self, call):
        self.headers.append(call.metadata.first("x-watched"))
        code = self.codes.pop(0)
        if code is not StatusCode.OK:
            call.abort(code, "told to")
        await call.send(b"done")


async def never(call):
    await trio.sleep_forever()


def put(mesh, handler, path=FAIL):
    for server in mesh.servers.values():
        server.handlers[path] = handler
    return handler


async def test_an_observer_gets_all_events_of_a_unary_call(autojump_clock):
    async with watched() as (mesh, channel, watcher):
        host = mesh.hosts[0]
        await method(channel)(b"one")
        assert watcher.notes == [
            f"call {METHOD}",
            "routed to cart",
            "attempt 0",
            f"picked {host} of cart",
            "sent 3 as 3",
            f"received {len(host) + 4} as {len(host) + 4}",
            "ended OK",
            "over OK",
        ]


async def test_an_observer_that_does_not_override_call_gives_an_rpc_no_telemetry(monkeypatch, autojump_clock):
    made = []
    monkeypatch.setattr(Rpc, "attach_telemetry", lambda self, registered: made.append(self))
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        with channel.observed_by(Observer()):
            await ask(channel)
    assert made == []


async def test_headers_of_observers_are_in_the_metadata_of_each_attempt(autojump_clock):
    async with watched() as (mesh, channel, _):
        script = put(mesh, Script(StatusCode.OK))
        await method(channel, FAIL)(b"")
        assert script.headers == ["0"]


async def test_an_observer_learns_why_a_call_that_waits_for_ready_has_no_host(autojump_clock):
    async with watched() as (mesh, channel, watcher):
        mesh.endpoints("cart", [])
        await wait_all_tasks_blocked()
        with pytest.raises(RpcError):
            await ask(channel, timeout=2, wait_for_ready=True)
        (why,) = watcher.of("delayed")
        assert "none of its endpoints takes new requests" in why


async def test_an_observer_gets_the_first_calls_wait_for_configuration_and_host(autojump_clock):
    async with watched(connected=False) as (mesh, channel, watcher):
        await ask(channel)
        assert watcher.of("resolution", "delayed", "picked") == [
            "resolution delayed",
            "delayed no host of cluster cart is connected",
            f"picked {mesh.hosts[0]} of cart late",
        ]


async def test_an_observer_learns_once_which_cluster_had_no_host(autojump_clock):
    async with watched(2, connected=False) as (mesh, channel, watcher):
        for host in mesh.hosts:
            mesh.network.refuse(host)
        with pytest.raises(RpcError):
            await ask(channel, wait_for_ready=True, timeout=20)  # it picks again after each failure to connect
        assert watcher.of("no-host") == ["no-host in cart"]


async def test_an_observer_gets_retries_as_numbered_attempts_after_a_backoff(monkeypatch, autojump_clock):
    policy = {"maxAttempts": 3, "initialBackoff": "10s", "maxBackoff": "10s", "backoffMultiplier": 1}
    policy["retryableStatusCodes"] = ["UNAVAILABLE"]
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(retryPolicy=policy)) as channel:
        put(mesh, Script(StatusCode.UNAVAILABLE, StatusCode.OK))
        await ask(channel)
        watcher = Watcher()
        with channel.observed_by(watcher):
            await method(channel, FAIL)(b"x")
    told = watcher.of("attempt", "ended", "backoff", "sent", "over")
    assert [note for note in told if not note.startswith("backoff")] == [
        "attempt 0", "sent 1 as 1", "ended UNAVAILABLE", "attempt 1", "sent 1 as 1", "ended OK", "over OK",
    ]  # fmt: skip
    assert told[3].split()[1] in {"8", "9", "10", "11", "12"}


async def test_an_observed_call_cancelled_in_its_backoff_ends_with_cancelled(monkeypatch, autojump_clock):
    policy = {"maxAttempts": 3, "initialBackoff": "10s", "maxBackoff": "10s", "backoffMultiplier": 1}
    policy["retryableStatusCodes"] = ["UNAVAILABLE"]
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(retryPolicy=policy)) as channel:
        put(mesh, Script(StatusCode.UNAVAILABLE))
        watcher = Watcher()
        with channel.observed_by(watcher), trio.move_on_after(2):
            await method(channel, FAIL)(b"x")
    assert watcher.of("ended", "over") == ["ended UNAVAILABLE", "over CANCELLED"]


async def test_an_observer_gets_a_failed_pick_as_a_failed_attempt(autojump_clock):
    async with watched(connected=False) as (mesh, channel, watcher):
        mesh.network.refuse(mesh.hosts[0])
        with pytest.raises(RpcError):
            await ask(channel)
        assert watcher.of("attempt", "picked", "ended", "over") == [
            "attempt 0",
            "ended UNAVAILABLE",
            "over UNAVAILABLE",
        ]


async def test_an_observed_call_without_a_route_has_no_attempt(autojump_clock):
    async with watched() as (mesh, channel, watcher):
        mesh.route(xds.route("cart", prefix="/other"))
        await trio.sleep(1)
        with pytest.raises(RpcError):
            await ask(channel)
        assert watcher.of(*OF_A_CALL) == [f"call {METHOD}", "over UNAVAILABLE"]


async def test_an_observer_gets_a_refused_stream_and_its_transparent_retry(autojump_clock):
    async with watched() as (mesh, channel, watcher):
        refused = []

        async def refuse_once(call):
            if not refused:
                refused.append(call)
                call.reset(ErrorCode.REFUSED_STREAM)
            else:
                await call.send(b"")

        put(mesh, refuse_once)
        await method(channel, FAIL)(b"")
        assert watcher.of("attempt", "ended", "over") == [
            "attempt 0", "ended UNAVAILABLE", "attempt 0 transparent", "ended OK", "over OK",
        ]  # fmt: skip


async def test_an_observer_gets_each_hedge_and_the_unchosen_ones_as_cancelled(monkeypatch, autojump_clock):
    policy = {"maxAttempts": 2, "hedgingDelay": "1s", "nonFatalStatusCodes": []}
    slow = [100, 1]

    async def host(call):
        await trio.sleep(slow.pop(0) if slow else 0)
        await call.send(b"")

    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(hedgingPolicy=policy)) as channel:
        await ask(channel)
        put(mesh, host)
        watcher = Watcher()
        with channel.observed_by(watcher):
            await method(channel, FAIL)(b"x")
    assert watcher.of("routed", "attempt") == ["routed to cart hedged", "attempt 0", "attempt 1"]
    assert watcher.of("ended", "over") == ["ended CANCELLED", "ended OK", "over OK"]


async def test_an_observer_gets_each_message_of_a_stream(autojump_clock):
    async with watched() as (mesh, channel, watcher):
        async with bidi(channel).open() as call:
            for message in (b"a", b"bc"):
                await call.send(message)
                await call.receive()
            call.done_sending()
            assert await call.receive() is None
        size = len(mesh.hosts[0]) + 1
        assert watcher.of("sent", "received", "ended", "over") == [
            "sent 1 as 1",
            f"received {size + 1} as {size + 1}",
            "sent 2 as 2",
            f"received {size + 2} as {size + 2}",
            "ended OK",
            "over OK",
        ]


async def test_an_observer_gets_both_sizes_of_a_compressed_message(autojump_clock):
    async def echo(call):
        call.compress_with("gzip")
        async for message in call:
            await call.send(message)

    async with watched(compression="gzip") as (mesh, channel, watcher):
        put(mesh, echo)
        await method(channel, FAIL)(b"x" * 1000)
        (_, sent, _, sent_as), (_, received, _, received_as) = map(str.split, watcher.of("sent", "received"))
        assert (sent, received) == ("1000", "1000")
        assert int(sent_as) < 100 and int(received_as) < 100


async def test_an_observed_call_that_its_caller_leaves_ends_with_cancelled(autojump_clock):
    async with watched() as (_, channel, watcher):
        async with bidi(channel).open(b"one"):
            pass
        assert watcher.of("ended", "over") == ["ended CANCELLED", "over CANCELLED"]


@pytest.mark.parametrize("by_scope", [True, False])
async def test_an_observed_call_past_any_deadline_ends_with_deadline_exceeded(by_scope, autojump_clock):
    async with watched() as (mesh, channel, watcher):
        put(mesh, never)
        if by_scope:
            with trio.move_on_after(5):
                await method(channel, FAIL)(b"")
        else:
            with pytest.raises(RpcError):
                await method(channel, FAIL)(b"", timeout=5)
        assert watcher.of("ended", "over") == ["ended DEADLINE_EXCEEDED", "over DEADLINE_EXCEEDED"]


async def test_an_observed_call_past_its_deadline_without_a_host_ends_with_deadline_exceeded(autojump_clock):
    async with watched(connected=False) as (mesh, channel, watcher):
        mesh.network.black_hole(mesh.hosts[0])
        with pytest.raises(RpcError):
            await ask(channel, timeout=5)
        assert watcher.of("ended", "over") == ["ended DEADLINE_EXCEEDED", "over DEADLINE_EXCEEDED"]


async def test_an_unparsable_reply_fails_the_observed_call_and_not_its_attempt(autojump_clock):
    def parse(data):
        raise ValueError("no")

    async with watched() as (_, channel, watcher):
        with pytest.raises(RpcError):
            await channel.method(METHOD, None, parse)(b"")
        assert watcher.of("ended", "over") == ["ended OK", "over INTERNAL"]


async def test_observed_calls_end_when_the_channel_closes(nursery, autojump_clock):
    async def call(channel):
        with pytest.raises(RpcError):
            await method(channel, FAIL)(b"")

    async with Mesh.run(1) as mesh:
        watcher = Watcher()
        async with mesh.channel() as channel, trio.open_nursery() as calls:
            put(mesh, never)
            channel._state.observers.add(watcher)
            calls.start_soon(call, channel)
            await wait_all_tasks_blocked()
            channel._state.close()
        assert watcher.of("ended", "over") == ["ended CANCELLED", "over CANCELLED"]


async def test_an_explanation_is_no_observed_call(autojump_clock):
    async with watched() as (_, channel, watcher):
        await channel.explain(METHOD)
        assert watcher.notes == []


async def test_a_message_that_is_received_after_a_failed_send_is_no_event_of_the_attempt_that_has_ended(autojump_clock):
    async def answer(call):
        await call.send(b"one")
        call.abort(StatusCode.NOT_FOUND, "told to")

    async with watched() as (mesh, channel, watcher):
        put(mesh, answer)
        async with bidi(channel, FAIL).open() as call:
            await trio.sleep(1)
            with pytest.raises(RpcError):
                await call.send(b"")
            assert await call.receive() == b"one"
        assert watcher.of("received", "ended", "over") == ["ended NOT_FOUND", "over NOT_FOUND"]


def test_a_pick_without_a_host_is_told_again_after_one_that_found_a_host():
    told = []

    class Attempt(AttemptObserver):
        def picked(self, pick):
            told.append(pick.address)

        def no_host(self, backend):
            told.append(f"none in {backend}")

    class Call(CallObserver):
        def attempt(self, previous, transparent):
            return Attempt()

    class Caller(Observer):
        def call(self, call):
            return Call()

    attempt = CallTelemetry(Observers(Caller()).call(CallStarted(METHOD)), None, None).new_attempt(0)
    nowhere = Fail(Status(StatusCode.UNAVAILABLE))
    for result in (nowhere, nowhere, Complete(SimpleNamespace(address="10.0.1.1:1")), nowhere):
        backend = "" if isinstance(result, Complete) else "cart"
        attempt.record_pick(result, PickArgs(METHOD, cluster="all", backend=backend), True)
    assert told == ["none in cart", "10.0.1.1:1", "none in cart"]


# -- who watches


async def test_a_new_observer_gets_no_events_of_calls_already_open(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, bidi(channel).open(b"one") as call:
        watcher = Watcher()
        with channel.observed_by(watcher):
            await call.receive()
        assert watcher.notes == []


async def test_an_observer_that_raises_is_logged_and_affects_no_call(autojump_clock, caplog):
    class Bad(Observer):
        def call(self, call):
            raise ZeroDivisionError

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        with channel.observed_by(Bad()):
            for _ in range(3):
                await ask(channel)
    assert len([record for record in caplog.records if "observer" in record.getMessage()]) == 1
