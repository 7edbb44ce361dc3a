"""Interceptors have one shape for all kinds of calls; they nest, and may change, fail or answer calls."""

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
from support.mesh import METHOD, Mesh, ask, bidi, method

import trxds
from trxds import FixedResponseCall, ForwardingCall, RpcError, StatusCode
from trxds.core.status import Status

KINDS = [(client, server) for client in (False, True) for server in (False, True)]


class Noting:
    """Records when a call enters and leaves it, and the call's outcome."""

    def __init__(self, name, notes):
        self.name, self.notes = name, notes

    @asynccontextmanager
    async def __call__(self, call, next):
        self.notes.append(f"{self.name} in")
        try:
            async with next(call) as stream:
                yield stream
        except RpcError as error:
            self.notes.append(f"{self.name} {error.status.code.name}")
            raise
        self.notes.append(f"{self.name} out")


class Upper(ForwardingCall):
    async def send(self, request, *, compress=True):
        return await super().send(request.upper(), compress=compress)

    async def receive(self):
        reply = await super().receive()
        return None if reply is None else reply + b"!"


def wrapping(kind):
    @asynccontextmanager
    async def interceptor(call, next):
        async with next(call) as stream:
            yield kind(stream)

    return interceptor


def changing(**changes):
    @asynccontextmanager
    async def interceptor(call, next):
        async with next(replace(call, **changes)) as stream:
            yield stream

    return interceptor


@asynccontextmanager
async def answering(call, next):
    yield FixedResponseCall(b"cached", initial_metadata=[("from", "memory")], trailing_metadata=[("age", "3")])


@asynccontextmanager
async def refusing(call, next):
    raise RpcError(Status(StatusCode.PERMISSION_DENIED, "not today"))
    yield


@asynccontextmanager
async def served(*interceptors, handler=None, **more):
    async with Mesh.run(1) as mesh, mesh.channel(interceptors=interceptors, **more) as channel:
        for server in mesh.servers.values():
            server.fallback = handler or server.fallback
        yield channel


async def echo(call):
    async for message in call:
        await call.send(message)


def of_kind(channel, client_streaming, server_streaming, path=METHOD):
    return channel.method(path, client_streaming=client_streaming, server_streaming=server_streaming)


@pytest.mark.parametrize(("client_streaming", "server_streaming"), KINDS)
async def test_interceptors_see_every_kind_of_call_and_may_change_its_messages(
    client_streaming, server_streaming, autojump_clock
):
    notes = []
    async with served(Noting("outer", notes), wrapping(Upper), handler=echo) as channel:
        call_ = of_kind(channel, client_streaming, server_streaming)
        async with call_.open(b"a") as call:
            call.done_sending()
            assert [reply async for reply in call] == [b"A!"]
        if not server_streaming:
            assert await call_([b"a"] if client_streaming else b"a") == b"A!"
            assert notes == ["outer in", "outer out"] * 2


async def test_interceptors_nest_in_their_order(autojump_clock):
    notes = []
    async with served(Noting("first", notes), Noting("second", notes)) as channel:
        await ask(channel)
    assert notes == ["first in", "second in", "second out", "first out"]


async def test_interceptors_get_the_calls_method_and_options(autojump_clock):
    seen = []

    @asynccontextmanager
    async def look(call, next):
        seen.append(call)
        async with next(call) as stream:
            yield stream

    async with served(look) as channel:
        await method(channel)(b"", timeout=5, metadata=[("User", "7")], wait_for_ready=True, compression="gzip")
    assert seen == [trxds.CallDetails(METHOD, (("user", "7"),), 5, True, "gzip")]


async def test_interceptors_may_change_the_method_and_all_options(autojump_clock):
    seen = []

    async def handler(call):
        seen.append((call.path, call.metadata.first("user"), call.timeout, call.incoming.deframer.encoding))
        await echo(call)

    changes = changing(method="/shop.Cart/Other", metadata=[("user", "8")], timeout=3.0, compression="deflate")
    async with served(changes, handler=handler) as channel:
        await method(channel)(b"x")
    ((path, user, timeout, encoding),) = seen
    assert (path, user, encoding) == ("/shop.Cart/Other", "8", "deflate") and 2 < timeout <= 3


async def test_invalid_metadata_of_an_interceptor_is_rejected(autojump_clock):
    async with served(changing(metadata=[("te", "x")])) as channel:
        with pytest.raises(ValueError, match="'te' belongs to the protocol"):
            await ask(channel)


async def test_an_interceptor_that_responds_itself_sends_nothing(autojump_clock):
    async with served(answering, handler=lambda call: pytest.fail("called")) as channel:
        assert await method(channel)(b"x") == b"cached"
        async with bidi(channel).open(b"x") as call:
            assert (await call.wait_initial_metadata()).first("from") == "memory"
            assert not await call.send(b"more")
            assert [reply async for reply in call] == [b"cached"]
            assert (call.status.code, call.trailing_metadata.first("age")) == (StatusCode.OK, "3")


async def test_a_forwarding_call_has_what_its_call_has(autojump_clock):
    calls = []

    @asynccontextmanager
    async def forwarding(call, next):
        async with next(call) as stream:
            calls.append(stream)
            yield ForwardingCall(stream)

    async def handler(call):
        call.set_trailing_metadata([("age", "3")])
        await call.send_initial_metadata([("from", "disk")])
        await echo(call)

    def known(call):
        return call.initial_metadata, call.trailing_metadata, call.status, call.peer

    async with served(forwarding, handler=handler) as channel, bidi(channel).open() as call:
        assert (await call.wait_initial_metadata()).first("from") == "disk"
        assert known(call) == known(calls[0])
        call.done_sending()
        assert await call.receive() is None
        assert known(call) == known(calls[0])
        assert (call.trailing_metadata.first("age"), call.status.code) == ("3", StatusCode.OK)


async def test_cancelling_a_forwarding_call_cancels_its_call(autojump_clock):
    async with served(wrapping(ForwardingCall), handler=echo) as channel, bidi(channel).open() as call:
        assert call.cancel() and not call.cancel()
        assert call.status.code is StatusCode.CANCELLED


async def test_an_interceptor_that_raises_fails_the_call_for_outer_interceptors_too(autojump_clock):
    notes = []
    async with served(Noting("outer", notes), refusing) as channel:
        with pytest.raises(RpcError, match="PERMISSION_DENIED: not today"):
            await ask(channel)
        with pytest.raises(RpcError, match="PERMISSION_DENIED: not today"):
            async with bidi(channel).open():
                pytest.fail("entered")
    assert notes == ["outer in", "outer PERMISSION_DENIED"] * 2


async def test_interceptors_get_the_calls_rpc_error(autojump_clock):
    async def failing(call):
        call.abort(StatusCode.NOT_FOUND)

    notes = []
    async with served(Noting("one", notes), handler=failing) as channel:
        with pytest.raises(RpcError):
            await ask(channel)
    assert notes == ["one in", "one NOT_FOUND"]


async def test_an_interceptor_that_swallows_a_failure_is_a_runtime_error(autojump_clock):
    @asynccontextmanager
    async def swallow(call, next):
        try:
            async with next(call) as stream:
                yield stream
        except RpcError:
            pass

    async def failing(call):
        call.abort(StatusCode.NOT_FOUND)

    async with served(swallow, handler=failing) as channel:
        for call in (of_kind(channel, False, False), of_kind(channel, True, False)):
            with pytest.raises(RuntimeError, match="an interceptor swallowed the exception of its call"):
                await call([b""] if call is not None and call.client_streaming else b"")


async def test_sessions_add_their_cookies_below_interceptors(autojump_clock):
    notes = []
    async with (
        Mesh.run(3) as mesh,
        mesh.channel(interceptors=[Noting("one", notes)]) as channel,
        channel.session() as session,
    ):
        assert len({await ask(session) for _ in range(9)}) == 1
    assert notes == ["one in", "one out"] * 9


async def test_a_cancelled_call_leaves_all_interceptors(autojump_clock):
    left = []

    @asynccontextmanager
    async def note_the_end(call, next):
        try:
            async with next(call) as stream:
                yield stream
        finally:
            left.append(call.method)

    async with served(note_the_end, handler=lambda call: trio.sleep(100)) as channel:  # noqa: ASYNC105
        with trio.move_on_after(1):
            await ask(channel)
    assert left == [METHOD]


async def test_a_channel_without_interceptors_has_plain_methods(autojump_clock):
    async with served() as channel:
        assert type(method(channel)) is trxds.Method


async def coroutine(call, next):
    return next(call)


async def generator(call, next):
    async with next(call) as stream:
        yield stream


@pytest.mark.parametrize("interceptor", [coroutine, generator], ids=lambda each: each.__name__)
async def test_an_interceptor_without_its_decorator_is_refused_by_name(interceptor, autojump_clock):
    problem = f"interceptor {interceptor.__name__} is a plain `async def`; put @asynccontextmanager before it"
    async with Mesh.run(1) as mesh:
        with pytest.raises(TypeError, match=problem):
            async with mesh.channel(interceptors=[interceptor]):
                pass


@asynccontextmanager
async def forgetful(call, next):
    async with next(call):
        yield


@asynccontextmanager
async def early(call, next):
    if call is None:
        yield


@asynccontextmanager
async def replying(call, next):
    yield b"pong"


@pytest.mark.parametrize("client_streaming", [False, True])
@pytest.mark.parametrize("interceptor", [forgetful, early, replying], ids=lambda each: each.__name__)
async def test_an_interceptor_that_yields_no_call_is_named(interceptor, client_streaming, autojump_clock):
    problem = f"/shop.Cart/Add: the interceptor {interceptor.__name__} yielded no call; it must yield one"
    async with Mesh.run(1) as mesh, mesh.channel(interceptors=[interceptor]) as channel:
        add = channel.method(METHOD, client_streaming=client_streaming)
        with pytest.raises(RuntimeError, match=problem):
            await add([b""] if client_streaming else b"")
        with pytest.raises(RuntimeError, match=problem):
            async with add.open():
                pass


async def test_a_generator_of_the_callers_own_that_does_not_yield_is_none_of_an_interceptor(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel(interceptors=[changing()]) as channel:
        with pytest.raises(RuntimeError, match=r"\Agenerator didn't yield\Z"):
            async with method(channel).open(b""), early({}, None):
                pass
