"""A call has one final status: `call.status`, its exception, observers and filters cannot disagree."""

from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing
from support.mesh import Mesh, bidi
from support.own_filters import listen, own

from trxds import Metadata, RpcError, Status, StatusCode
from trxds.core.observe import CallObserver, Observer
from trxds.filters import FilterCall
from trxds.testing import resources as xds

PATH = "/shop.Cart/Told"
RETRY = {"retry_on": "unavailable", "num_retries": 1, "retry_back_off": {"base_interval": "10s", "max_interval": "10s"}}


class Told(FilterCall):
    """A filter and an observer: what each learns of a call."""

    def __init__(self):
        self.trailers, self.closed, self.over = [], [], []

    def on_receive(self, message):
        if message == b"unfiltered":
            raise ValueError("a bug")
        return message

    def on_trailers(self, status, metadata):
        self.trailers.append(status)
        return metadata

    def on_close(self, status):
        self.closed.append(status)

    def observer(self):
        told = self

        class Call(CallObserver):
            def ended(self, status):
                told.over.append(status)

        class Calls(Observer):
            def call(self, call):
                return Call()

        return Calls()


async def obey(call):
    """Do what each message says."""
    async for message in call:
        match message.split():
            case [b"echo"]:
                await call.send(message)
            case [b"headers"]:
                await call.send_initial_metadata([("x-host", "7")])
            case [b"hang"]:
                await trio.sleep_forever()
            case [b"send", what]:
                await call.send(what)
            case [b"fail"]:
                call.abort(StatusCode.NOT_FOUND, "told to")
            case [b"retry"]:
                call.abort(StatusCode.UNAVAILABLE, "told to")
            case [b"end"]:
                return


def parsed(payload):
    if payload == b"garbage":
        raise ValueError("no")
    return payload


@asynccontextmanager
async def telling(*, retries=False):
    """Yield the mesh, a channel whose host obeys, and what filter and observer are told."""
    told = Told()
    async with Mesh.run(1) as mesh:
        listen(mesh, "own")
        if retries:
            route = xds.route("cart")
            route["route"]["retry_policy"] = RETRY
            mesh.route(route)
        mesh.servers[mesh.hosts[0]].handlers[PATH] = obey
        async with mesh.channel(http_filters=own(lambda call: told), max_send_size=1000) as channel:
            with channel.observed_by(told.observer()):
                yield mesh, channel, told


def kind(caller, *, one_reply=False):
    return caller.method(PATH, None, parsed, client_streaming=True, server_streaming=not one_reply)


async def receive_all(call):
    while await call.receive() is not None:
        pass


async def lose_the_connection(mesh, call):
    await call.send(b"headers")
    await call.wait_initial_metadata()
    mesh.network.cut(mesh.hosts[0])
    await receive_all(call)


async def say(call, *words):
    for word in words:
        await call.send(word)
    call.done_sending()
    await receive_all(call)


async def cancel(call):
    call.cancel()
    await receive_all(call)


STEPS = {
    "OK": lambda mesh, call: say(call, b"echo"),
    "OK without a message": lambda mesh, call: say(call),
    "fails": lambda mesh, call: say(call, b"fail"),
    "fails behind a message": lambda mesh, call: say(call, b"echo", b"fail"),
    "fails in both attempts": lambda mesh, call: say(call, b"retry"),
    "connection lost": lose_the_connection,
    "deadline": lambda mesh, call: receive_all(call),
    "deadline, headers": lambda mesh, call: call.wait_initial_metadata(),
    "cancelled": lambda mesh, call: cancel(call),
    "cannot be parsed": lambda mesh, call: say(call, b"send garbage"),
    "filter raises": lambda mesh, call: say(call, b"send unfiltered"),
    "too large": lambda mesh, call: call.send(bytes(1001)),
    "left": lambda mesh, call: call.send(b"headers"),
    "left behind the end": lambda mesh, call: leave_behind_the_end(call),
}


async def leave_behind_the_end(call):
    call.done_sending()
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("one_reply", [False, True])
@pytest.mark.parametrize("end", STEPS)
async def test_a_stream_has_one_status_for_its_caller_filters_and_observers(end, one_reply, autojump_clock):
    async with telling(retries=True) as (mesh, channel, told):
        error = None
        async with kind(channel, one_reply=one_reply).open(timeout=100) as call:
            try:
                await STEPS[end](mesh, call)
            except RpcError as raised:
                error = raised.status
                assert call.status == error
            if one_reply and end == "OK":
                assert await call.receive() is None
        assert told.closed == told.over == [call.status]
        assert error in (None, call.status)
        assert call.status.ok or error is not None or end.startswith("left")
        assert channel.admin_view().calls.succeeded == call.status.ok


@pytest.mark.parametrize("end", ["session", "channel"])
async def test_a_stream_whose_session_or_channel_ends_has_one_status(end, autojump_clock):
    raised = []

    async def run(session):
        async with kind(session).open(b"headers") as call:
            calls.append(call)
            with suppress(RpcError):
                while True:
                    await call.receive()
                    await call.send(b"")

    async def unary(session):
        with pytest.raises(RpcError) as error:
            await session.method(PATH)(b"hang")
        raised.append(error.value.status)

    calls = []
    async with telling() as (_, channel, told), trio.open_nursery() as nursery:
        async with channel.session() as session:
            nursery.start_soon(run, session)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(unary, session)
            await trio.testing.wait_all_tasks_blocked()
            if end == "channel":
                channel._state.close()
        await trio.testing.wait_all_tasks_blocked()
    status = Status(StatusCode.CANCELLED, f"{end} closed")
    assert [call.status for call in calls] == raised == [status]
    assert told.closed == told.over == [status, status]


async def test_the_callers_cancel_scope_that_ends_a_call_at_its_deadline_is_a_deadline_for_filters_too(autojump_clock):
    async with telling() as (_, channel, told):
        with trio.move_on_after(1):
            await channel.method(PATH)(b"hang")
        assert told.closed == told.over == [Status(StatusCode.DEADLINE_EXCEEDED, "the caller's own time was over")]


async def test_a_call_that_its_channel_ends_before_its_ok_was_taken_counts_as_failed(autojump_clock):
    async with telling() as (_, channel, told):
        async with kind(channel).open() as call:
            await leave_behind_the_end(call)
            channel._state.close()
            with pytest.raises(RpcError, match="channel closed"):
                await call.receive()
        counts = channel.admin_view().calls
        assert (counts.succeeded, counts.failed, told.over) == (0, 1, [call.status])


async def test_the_first_failure_of_a_call_stays(autojump_clock):
    async with telling() as (_, channel, _), kind(channel).open(timeout=5) as call:
        with pytest.raises(RpcError, match="RESOURCE_EXHAUSTED"):
            await call.send(bytes(1001))
        await trio.sleep(10)
        for step in (call.receive, call.wait_initial_metadata, lambda: call.send(b"x"), lambda: call.send(bytes(1001))):
            with trio.testing.assert_checkpoints(), pytest.raises(RpcError, match="RESOURCE_EXHAUSTED"):
                await step()


async def test_a_message_of_any_size_is_not_sent_after_ok(autojump_clock):
    async with telling() as (_, channel, _), kind(channel).open(b"end") as call:
        assert await call.receive() is None
        assert not await call.send(bytes(1001))
        assert call.status.ok


async def test_a_message_that_cannot_be_sent_ends_the_wait_for_a_retry_at_once(nursery, autojump_clock):
    async def fails():
        with pytest.raises(RpcError, match="RESOURCE_EXHAUSTED"):
            await call.receive()
        ended.append(trio.current_time())

    ended = []
    async with telling(retries=True) as (_, channel, _), kind(channel).open(b"retry") as call:
        nursery.start_soon(fails)
        await trio.sleep(1)  # into the backoff
        now = trio.current_time()
        with pytest.raises(RpcError, match="RESOURCE_EXHAUSTED"):
            await call.send(bytes(1001))
        await trio.testing.wait_all_tasks_blocked()
        assert ended == [now]


# -- initial metadata


@pytest.mark.parametrize("end", ["deadline", "cancel", "fail"])
async def test_headers_that_have_come_are_returned_after_the_calls_end(end, autojump_clock):
    async with telling() as (_, channel, _), kind(channel).open(b"headers", timeout=5) as call:
        await call.wait_initial_metadata()
        if end == "cancel":
            call.cancel()
        elif end == "fail":
            await call.send(b"fail")
        with pytest.raises(RpcError):
            await call.receive()
        with trio.testing.assert_checkpoints():
            assert (await call.wait_initial_metadata()).first("x-host") == "7"


@pytest.mark.parametrize("end", ["deadline", "cancel", "connection", "size"])
async def test_the_wait_for_headers_of_a_call_that_ends_without_a_response_raises_its_status(end, autojump_clock):
    async with telling() as (mesh, channel, told), kind(channel).open(timeout=5) as call:
        match end:
            case "cancel":
                call.cancel()
            case "connection":
                mesh.network.cut(mesh.hosts[0])
            case "size":
                with suppress(RpcError):
                    await call.send(bytes(1001))
        for _ in range(2):
            with trio.testing.assert_checkpoints(), pytest.raises(RpcError) as error:
                await call.wait_initial_metadata()
            assert error.value.status == call.status
        assert call.initial_metadata is None
    assert told.over == [call.status]


@pytest.mark.parametrize("word", [b"fail", b"end"])
async def test_the_headers_of_a_trailers_only_response_are_empty(word, autojump_clock):
    async with telling() as (_, channel, told), kind(channel).open(word) as call:
        assert await call.wait_initial_metadata() == Metadata()
        with suppress(RpcError):
            await call.receive()
        assert await call.wait_initial_metadata() == call.initial_metadata == Metadata()
    assert told.trailers == told.over == [call.status]


# -- trailing metadata


@pytest.mark.parametrize("end", ["deadline", "cancelled", "too large", "cannot be parsed", "left"])
async def test_a_filter_gets_no_trailers_of_a_call_that_the_client_has_ended(end, autojump_clock):
    async with telling() as (mesh, channel, told):
        async with kind(channel).open(timeout=5) as call:
            with suppress(RpcError):
                await STEPS[end](mesh, call)
            if end != "left":
                with pytest.raises(RpcError):
                    await call.receive()
        assert (told.trailers, told.closed) == ([], [call.status])


async def test_each_end_of_the_server_gives_a_filter_trailers_once(autojump_clock):
    async with telling() as (_, channel, told), bidi(channel, PATH).open(b"fail") as call:
        for _ in range(2):
            with pytest.raises(RpcError):
                await call.receive()
            with pytest.raises(RpcError):
                await call.send(b"x")
        assert told.trailers == [Status(StatusCode.NOT_FOUND, "told to")]
