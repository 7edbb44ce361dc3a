"""This program forks while it has open channels; the child prints the outcome of each use (see `test_fork.py`)."""

import os
import sys
import threading

import trio

import trxds
from trxds.testing import serve


async def echo(call):
    async for message in call:
        await call.send(message)


def outcome(use):
    """Return the outcome of a step of `use`, which must not wait for anything."""
    coroutine = use()
    try:
        coroutine.send(None)
    except StopIteration as done:
        return f"returned {done.value!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "waits"


async def each_use(channel, call):
    ask = channel.method("/echo.Echo/Ask")

    async def session():
        async with channel.session() as session:
            return await session.method("/echo.Echo/Ask")(b"")

    async def opened():
        async with ask.open(b""):
            pass

    async def state():
        return channel.state

    async def connect():
        return channel.try_to_connect()

    yield "unary", lambda: ask(b"")
    yield "open", opened
    yield "session", session
    yield "explain", lambda: channel.explain("/echo.Echo/Ask")
    yield "state", state
    yield "wait_for_state_change", lambda: channel.wait_for_state_change(None)
    yield "try_to_connect", connect
    yield "send", lambda: call.send(b"more")
    yield "receive", call.receive


async def in_child(channel, call):
    async for name, use in each_use(channel, call):
        print(name, outcome(use), flush=True)


async def main(where):
    async with serve(fallback=echo) as server, trxds.open_channel(f"ipv4:{server.address}") as channel:
        ask = channel.method("/echo.Echo/Ask")
        async with channel.method("/echo.Echo/Chat", client_streaming=True, server_streaming=True).open() as call:
            await call.send(b"one")
            assert await call.receive() == b"one"
            child = os.fork() if where == "task" else await trio.to_thread.run_sync(forked, channel, call)
            if not child:
                speak(channel, call)
            await trio.to_thread.run_sync(os.waitpid, child, 0)
            # The parent goes on as if nothing had happened.
            await call.send(b"two")
            assert await call.receive() == b"two"
            call.done_sending()
        assert await ask(b"three", timeout=20) == b"three"
        print("parent", os.getpid(), flush=True)


def forked(channel, call):
    """Fork in a thread of its own, which is the only one of the child."""
    assert threading.current_thread() is not threading.main_thread()
    child = os.fork()
    if not child:
        speak(channel, call)
    return child


def speak(channel, call):
    """Run the child's part; it exits without its parent's clean-up, as a forked child of an event loop must."""
    try:
        outcome(lambda: in_child(channel, call))
    finally:
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
