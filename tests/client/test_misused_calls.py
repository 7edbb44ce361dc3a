"""A call with an argument of a wrong type, or with two tasks at one end, is an error that says what to do."""

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from support.mesh import Mesh, bidi, method

from trxds.client.messages import serializer


@asynccontextmanager
async def forwards(call, next):
    async with next(call) as stream:
        yield stream


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_result_of_a_serializer_becomes_bytes(kind):
    sent = serializer(lambda request: kind(b"now"), "/shop.Cart/Add")(None)
    assert (type(sent), sent) == (bytes, b"now")


@pytest.mark.parametrize(("result", "name"), [("text", "str"), (None, "NoneType"), (5, "int")])
async def test_a_serializer_that_returns_no_bytes_is_a_type_error(result, name, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        error = rf"/shop\.Cart/Add: its serializer returned {name}, not bytes\Z"
        with pytest.raises(TypeError, match=error):
            await channel.method("/shop.Cart/Add", lambda request: result)(b"", timeout=1)
        async with channel.method("/shop.Cart/Add", lambda request: result, client_streaming=True).open() as call:
            with pytest.raises(TypeError, match=error):
                await call.send(b"")


@pytest.mark.parametrize("path", [None, b"/shop.Cart/Add"], ids=repr)
async def test_a_path_of_another_type_is_a_type_error_that_shows_the_form(path, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        with pytest.raises(TypeError, match=r"method path is a text such as /package\.Service/Method, not "):
            channel.method(path)


@pytest.mark.parametrize("interceptors", [[], [forwards]], ids=["plain", "intercepted"])
@pytest.mark.parametrize(("requests", "name"), [(None, "NoneType"), (b"abc", "bytes"), ("abc", "str"), (5, "int")])
async def test_a_client_stream_of_no_iterable_is_a_type_error_and_no_call(requests, name, interceptors, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel(interceptors=interceptors) as channel:
        add = channel.method("/shop.Cart/Add", client_streaming=True)
        error = rf"/shop\.Cart/Add takes an iterable of requests, not {name}; for one write \[request\]"
        with pytest.raises(TypeError, match=error):
            await add(requests)
        await trio.testing.wait_all_tasks_blocked()
        assert not mesh.servers[mesh.hosts[0]].calls


@pytest.mark.parametrize("interceptors", [[], [forwards]], ids=["plain", "intercepted"])
async def test_metadata_of_another_type_is_a_type_error_that_shows_the_form(interceptors, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel(interceptors=interceptors) as channel:
        with pytest.raises(TypeError, match=r"metadata is pairs of key and value, as in \[\('user', '7'\)\], not int"):
            await method(channel)(b"", metadata=5)


@pytest.mark.parametrize("interceptors", [[], [forwards]], ids=["plain", "intercepted"])
async def test_a_call_without_metadata_may_say_none(interceptors, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel(interceptors=interceptors) as channel:
        assert await method(channel)(b"", metadata=None) == mesh.hosts[0].encode()


async def test_a_type_error_of_a_generator_of_metadata_is_the_callers(autojump_clock):
    def pairs():
        yield "user", "7"
        raise TypeError("my own")

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        with pytest.raises(TypeError, match="my own"):
            await method(channel)(b"", metadata=pairs())


async def test_a_second_task_that_receives_is_told_that_only_one_may(autojump_clock):
    async def wait(call):
        await trio.sleep_forever()

    async with Mesh.run(1) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Wait"] = wait
        async with bidi(channel, "/shop.Cart/Wait").open() as call:
            nursery.start_soon(call.receive)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError, match="a call has one receiver and one sender at a time"):
                await call.receive()
            nursery.cancel_scope.cancel()


async def test_a_second_task_that_sends_is_told_that_only_one_may(autojump_clock):
    refused = []

    async def wait(call):
        await trio.sleep_forever()

    async def send(call):
        try:
            await call.send(b"x" * 300_000)
        except trio.BusyResourceError as error:
            refused.append(str(error))

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Wait"] = wait
        async with bidi(channel, "/shop.Cart/Wait").open() as call, trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(send, call)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert refused == ["another task is sending; a call has one sender at a time"]
