"""A call with one reply ends in time although its requests, an async iterable, wait for what does not come."""

import gc
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing
from support.mesh import Mesh
from support.method_config import configured, for_all

from trxds import RpcError, StatusCode

PATH = "/shop.Cart/Fill"
RETRY = {
    "maxAttempts": 2,
    "initialBackoff": "10s",
    "maxBackoff": "10s",
    "backoffMultiplier": 1,
    "retryableStatusCodes": ["UNAVAILABLE"],
}


class Requests:
    """One request, and then a wait without end; `left` is when the iteration was left."""

    def __init__(self):
        self.left = None

    async def __call__(self):
        try:
            yield b"one"
            await trio.sleep_forever()
        finally:
            self.left = trio.current_time()


class Handler:
    """Does `then` after a call's first request; `ended` has the attempts that are over."""

    def __init__(self, *then):
        self.then = list(then)
        self.ended = 0

    async def __call__(self, call):
        try:
            await call.receive()
            await self.then.pop(0)(call)
        finally:
            self.ended += 1


async def nothing(call):
    await trio.sleep_forever()


async def refusal(call):
    call.abort(StatusCode.PERMISSION_DENIED, "not yours")


async def failure(call):
    call.abort(StatusCode.UNAVAILABLE, "not now")


async def reply(call):
    await call.send(b"enough")


@asynccontextmanager
async def forwards(call, next):
    async with next(call) as stream:
        yield stream


@asynccontextmanager
async def served(handler, **more):
    async with Mesh.run(1, sessions=False) as mesh:
        mesh.servers[mesh.hosts[0]].handlers[PATH] = handler
        async with mesh.channel(**more) as channel:
            with trio.fail_after(60):
                yield channel.method(PATH, client_streaming=True)


intercepted = pytest.mark.parametrize("interceptors", [[], [forwards]], ids=["plain", "intercepted"])


@intercepted
async def test_the_timeout_ends_a_call_whose_requests_wait(interceptors, autojump_clock):
    requests = Requests()
    async with served(Handler(nothing), interceptors=interceptors) as fill:
        began = trio.current_time()
        with pytest.raises(RpcError) as caught:
            await fill(requests(), timeout=2)
        assert caught.value.status.code is StatusCode.DEADLINE_EXCEEDED
        assert requests.left == trio.current_time() == began + 2


@intercepted
async def test_the_servers_failure_ends_a_call_whose_requests_wait(interceptors, autojump_clock):
    requests = Requests()
    async with served(Handler(refusal), interceptors=interceptors) as fill:
        with pytest.raises(RpcError, match="PERMISSION_DENIED: not yours"):
            await fill(requests(), timeout=2)
        assert requests.left is not None


@intercepted
async def test_an_early_reply_is_returned_though_requests_wait(interceptors, autojump_clock):
    requests = Requests()
    async with served(Handler(reply), interceptors=interceptors) as fill:
        value, call = await fill.with_call(requests())
        assert (value, call.status.ok, requests.left is not None) == (b"enough", True, True)


async def test_the_end_of_the_channel_ends_a_call_whose_requests_wait(autojump_clock):
    caught = []

    async def fill(method):
        with pytest.raises(RpcError) as failed:
            await method(Requests()())
        caught.append(failed.value.status.message)

    async with trio.open_nursery() as nursery, served(Handler(nothing)) as method:
        nursery.start_soon(fill, method)
        await trio.testing.wait_all_tasks_blocked()
    assert caught == ["channel closed"]


async def test_a_call_whose_requests_wait_is_retried(monkeypatch, autojump_clock):
    handler = Handler(failure, reply)
    async with Mesh.run(1, sessions=False) as mesh:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Fail"] = handler
        async with configured(monkeypatch, mesh, for_all(retryPolicy=RETRY)) as channel:
            with trio.fail_after(60):
                assert await channel.method("/shop.Cart/Fail", client_streaming=True)(Requests()()) == b"enough"
    assert handler.ended == 2


async def test_an_exception_of_the_requests_is_raised_from_their_call_and_resets_it(autojump_clock):
    async def requests():
        yield b"one"
        await trio.sleep(1)
        raise LookupError("no more requests")

    handler = Handler(nothing)
    async with served(handler) as fill:
        with pytest.raises(LookupError, match="no more requests"):
            await fill(requests())
        await trio.testing.wait_all_tasks_blocked()
        assert handler.ended == 1


async def test_a_cancelled_caller_whose_requests_wait_gets_one_cancelled_and_no_group(autojump_clock):
    async with served(Handler(nothing)) as fill:
        with trio.move_on_after(1) as scope:
            with pytest.raises(trio.Cancelled) as caught:
                await fill(Requests()())
            raise caught.value
        assert scope.cancelled_caught


async def test_a_failed_call_of_waiting_requests_leaves_no_cycle(autojump_clock):
    async with served(Handler(refusal)) as fill:
        gc.collect()
        gc.disable()
        try:
            with pytest.raises(RpcError) as caught:
                await fill(Requests()())
            del caught
            await trio.testing.wait_all_tasks_blocked()
            assert not [each for each in gc.get_objects() if type(each).__name__ in ("Rpc", "RpcError")]
        finally:
            gc.enable()


async def test_an_exception_of_requests_that_are_closed_leaves_no_cycle(autojump_clock):
    async def requests():
        try:
            yield b"one"
            await trio.sleep_forever()
        finally:
            raise LookupError("cannot clean up")

    async with served(Handler(refusal)) as fill:
        gc.collect()
        gc.disable()
        try:
            with pytest.raises(LookupError) as caught:
                await fill(requests())
            del caught
            await trio.testing.wait_all_tasks_blocked()
            assert not [each for each in gc.get_objects() if type(each).__name__ in ("Rpc", "LookupError")]
        finally:
            gc.enable()


# -- the end of an iteration


@pytest.mark.parametrize("then", [refusal, reply], ids=["failed", "replied"])
async def test_a_generator_of_requests_is_closed_when_the_server_ends_its_call(then, autojump_clock):
    closed = []

    async def requests():
        try:
            while True:
                yield b"one"
        finally:
            closed.append(True)

    unfinished = requests()
    async with served(Handler(then)) as fill:
        with suppress(RpcError):
            await fill(unfinished)
        assert closed == [True]


async def test_a_memory_channel_of_requests_stays_open_when_the_server_ends_its_call(autojump_clock):
    send, receive = trio.open_memory_channel(2)
    send.send_nowait(b"one")
    async with served(Handler(reply)) as fill:
        assert await fill(receive) == b"enough"
        send.send_nowait(b"two")
        assert await receive.receive() == b"two"
