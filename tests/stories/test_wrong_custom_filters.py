"""A mistake in a program's own HTTP filter fails its calls alone, and the log says what it is."""

import pytest
import trio
import trio.testing
from support.cancelling import wait_and_fail_when_cancelled
from support.mesh import METHOD, Mesh, ask, method
from support.own_filters import OWN, after, failure, listen, own

import trxds
import trxds.aio
import trxds.sync
from trxds import Status, StatusCode
from trxds.filters import FilterCall, FilterType, Override
from trxds.testing import resources as xds


class Broken(FilterCall):
    def __init__(self, method):
        setattr(self, method, self.fail)

    def fail(self, *args):
        raise ZeroDivisionError("a bug")


async def wait_and_raise():
    raise ZeroDivisionError("a bug")


def raises(call):
    raise ZeroDivisionError("a bug")


def changes(**fields):
    def start(call):
        for name, value in fields.items():
            setattr(call, name, value)

    return start


async def is_async(call):
    return None


@pytest.mark.parametrize(
    ("start", "text"),
    [
        (raises, "a bug"),
        (lambda call: trxds.filters.Wait(wait_and_raise), "a bug"),
        (is_async, "start() must not be a coroutine function; return a Wait with one"),
        (lambda call: "yes", "start() must return None, a Status, a Wait, a FilterCall or a function, not 'yes'"),
        (lambda call: after(0, "yes"), "not 'yes'"),
        (lambda call: FilterCall, "not <class 'trxds.client.filter_protocol.FilterCall'>"),
        (lambda call: Status(StatusCode.OK), "a filter cannot end a call with OK"),
        (changes(metadata=[("content-type", "x")]), "belongs to the protocol"),
        (changes(metadata="x"), "write a pair of key and value"),
        (changes(path="/other.Service/Method"), "a filter cannot change the path"),
        (changes(cluster="other"), "'other' is no cluster of the call's route"),
    ],
)
async def test_a_wrong_decision_of_a_filter_fails_its_call_with_internal_and_the_log_says_why(
    start, text, autojump_clock, caplog
):
    async with Mesh.run(1) as mesh:
        listen(mesh, "own")
        async with mesh.channel(http_filters=own(start)) as channel:
            status = await failure(channel)
            assert status.code is StatusCode.INTERNAL
            assert status.message == 'the filter "own" (Starts) raised an exception, see the log'
            listen(mesh)
            await trio.sleep(1)
            await ask(channel)
    assert text in caplog.text


async def test_a_filter_whose_cleanup_fails_leaves_the_calls_own_error(autojump_clock, caplog):
    async with Mesh.run(1) as mesh:
        listen(mesh, "own")
        waits = own(lambda call: trxds.filters.Wait(wait_and_fail_when_cancelled))
        async with mesh.channel(http_filters=waits) as channel:
            assert (await failure(channel)).code is StatusCode.DEADLINE_EXCEEDED
    assert 'the filter "own" (Starts) raised while it was cancelled' in caplog.text


@pytest.mark.parametrize(
    ("on", "code"),
    [
        ("on_send", StatusCode.INTERNAL),
        ("on_receive", StatusCode.INTERNAL),
        *dict.fromkeys(("on_headers", "on_trailers", "on_close"), StatusCode.OK).items(),
    ],
)
async def test_an_exception_of_a_filter_that_follows_a_call_is_logged_and_fails_it_if_a_message_is_lost(
    on, code, autojump_clock, caplog
):
    async with Mesh.run(1) as mesh:
        listen(mesh, "own")
        async with mesh.channel(http_filters=own(lambda call: Broken(on))) as channel:
            if code is StatusCode.OK:
                await ask(channel)
            else:
                status = await failure(channel)
                assert (status.code, status.message) == (code, f'the filter "own" (Starts) raised in {on}, see the log')
    assert "ZeroDivisionError: a bug" in caplog.text


@pytest.mark.parametrize("on", ["on_send", "on_receive"])
async def test_a_filter_that_makes_a_message_of_another_type_fails_the_call(on, autojump_clock, caplog):
    class Wrong(trxds.filters.FilterCall):
        pass

    setattr(Wrong, on, lambda self, message: "text")
    async with Mesh.run(1) as mesh:
        listen(mesh, "own")
        async with mesh.channel(http_filters=own(lambda call: Wrong())) as channel:
            assert (await failure(channel)).message == f'the filter "own" (Starts) raised in {on}, see the log'
    assert f"TypeError: {on}() must return bytes, not str" in caplog.text


async def test_a_function_of_a_filter_may_return_pairs_for_the_response_of_a_session(autojump_clock):
    async with Mesh.run(1) as mesh:
        listen(mesh, "own", xds.stateful_session())
        adds = own(lambda call: lambda metadata: [*metadata, ("X-By", "me")])
        async with mesh.channel(http_filters=adds) as channel, channel.session() as session:
            _, call = await method(session).with_call(b"")
            assert call.initial_metadata.first("x-by") == "me"
            assert session.host == mesh.hosts[0]


@pytest.mark.parametrize("answer", [None, "yes", [("x by", "me")]])
async def test_a_function_of_a_filter_that_returns_no_metadata_leaves_the_response_as_it_is(
    answer, autojump_clock, caplog
):
    def respond(metadata):
        return answer

    async with Mesh.run(1) as mesh:
        listen(mesh, "own", xds.stateful_session())
        async with mesh.channel(http_filters=own(lambda call: respond)) as channel, channel.session() as session:
            _, call = await method(session).with_call(b"")
            assert call.initial_metadata.first("set-cookie")
            assert session.host == mesh.hosts[0]
    assert "<locals>.respond raised on the response" in caplog.text


@pytest.mark.parametrize("make", [raises, lambda settings: object()])
async def test_calls_fail_where_a_filter_cannot_be_made(make, autojump_clock, caplog):
    async with Mesh.run(1) as mesh:
        listen(mesh, "own")
        async with mesh.channel(http_filters={OWN: FilterType(lambda settings, context: make(settings))}) as channel:
            status = await failure(channel)
            assert status == Status(StatusCode.INTERNAL, 'the filter "own" cannot be made, see the log')
            assert "cannot be made" in str(await channel.explain(METHOD))
    assert 'the filter "own" cannot be made; calls on its routes fail' in caplog.text


@pytest.mark.parametrize(
    ("override", "says"),
    [
        (Override("10.0.1.2:50051"), "addresses of an Override are a tuple"),
        (Override(["10.0.1.2:50051"]), "addresses of an Override are a tuple"),
        ("10.0.1.2:50051", "call.override is Override("),
    ],
)
async def test_an_override_that_cannot_be_carried_out_fails_the_call_and_names_the_filter(
    override, says, autojump_clock, caplog
):
    def start(call):
        call.override = override

    async with Mesh.run(2, sessions=False) as mesh:
        listen(mesh, "pins")
        async with mesh.channel(http_filters=own(start)) as channel:
            status = await failure(channel)
    assert status.code is StatusCode.INTERNAL
    assert 'the filter "pins" (Starts) raised an exception' in status.message
    assert says in caplog.text
