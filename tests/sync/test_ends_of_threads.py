"""Ctrl-C, a cancelled future and a closed channel end the call of a waiting thread, and leave nothing."""

import gc
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future
from pathlib import Path

import pytest
import trio
import trio.testing
from support.threads import PATIENCE, thread

import trxds.sync
from trxds import RpcError, TrxdsInternalError
from trxds.portal.receive_buffer import ReceiveBuffer
from trxds.testing import resources


def test_ctrl_c_in_the_waiting_thread_cancels_the_call(world, channel, sigint):
    def interrupt():
        world.wait(world.began)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with thread(interrupt), pytest.raises(KeyboardInterrupt):
        channel.method("/shop.Cart/Hang")(b"")
    world.wait(world.ended)


def test_ctrl_c_while_a_stream_is_read_cancels_the_call(world, channel, sigint):
    def interrupt():
        world.wait(world.began)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with thread(interrupt), pytest.raises(KeyboardInterrupt), channel.method("/shop.Cart/Hang").open(b"") as call:
        call.receive()
    world.wait(world.ended)


def test_after_ctrl_c_at_the_start_of_a_wait_a_thread_receives_again(channel, monkeypatch):
    must_wait = ReceiveBuffer.must_wait

    def interrupted(buffer, waiter):
        monkeypatch.undo()
        assert must_wait(buffer, waiter)
        raise KeyboardInterrupt

    echo = channel.method("/shop.Cart/Echo", client_streaming=True, server_streaming=True)
    with echo.open(timeout=PATIENCE) as call:
        monkeypatch.setattr(ReceiveBuffer, "must_wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            call.receive()
        call.send(b"a")
        assert call.receive() == b"a"


def test_cancelling_a_future_cancels_its_call(world, channel):
    future = channel.method("/shop.Cart/Hang").future(b"")
    world.wait(world.began)
    assert future.cancel()
    world.wait(world.ended)


def test_a_closed_channel_leaves_no_thread(world):
    before = set(threading.enumerate())
    with world.channel() as channel:
        channel.method("/shop.Cart/Echo")(b"a")
        with channel.session() as session:
            session.method("/shop.Cart/Echo")(b"a")
        assert new_threads(before)
    assert not new_threads(before)


def new_threads(before):
    """The threads that were not there before. Some of those may have ended: Trio's workers do after ten seconds."""
    return set(threading.enumerate()) - before


def test_leaving_the_block_ends_the_calls_of_other_threads(world):
    caught = []

    def call(hang):
        with pytest.raises(RpcError) as error:
            hang(b"")
        caught.append(error.value.status)

    with world.channel() as channel:
        running = thread(call, channel.method("/shop.Cart/Hang"))
        running.__enter__()
        world.wait(world.began)
    running.__exit__(None, None, None)
    assert [str(status) for status in caught] == ["CANCELLED: channel closed"]


def test_leaving_the_block_ends_blocks_of_other_threads_silently(world):
    entered, left = threading.Event(), threading.Event()

    def call(hang):
        with hang.open(b"") as call:
            entered.set()
            assert left.wait(PATIENCE)
            with pytest.raises(trio.ClosedResourceError):
                call.receive()

    with world.channel() as channel:
        running = thread(call, channel.method("/shop.Cart/Hang"))
        running.__enter__()
        assert entered.wait(PATIENCE)
    left.set()
    running.__exit__(None, None, None)
    world.wait(world.ended)


def test_leaving_the_block_cancels_submitted_functions(world):
    async def sleep(_):
        await trio.sleep_forever()

    with world.channel() as channel:
        future = channel.submit(sleep)
    with pytest.raises(RpcError, match="channel closed"):
        future.result(0)


def test_a_closed_channel_for_threads_raises_closed_resource_error(world):
    with world.channel() as channel:
        pass
    with pytest.raises(trio.ClosedResourceError, match="the channel to xds:///shop is closed"):
        channel.method("/shop.Cart/Echo")(b"a")
    with pytest.raises(trio.ClosedResourceError), channel.session():
        raise AssertionError


def test_a_future_cancelled_before_it_began_sends_nothing(world, channel):
    begun = Future()

    async def note(_):
        begun.set_result(None)

    async def hold(_):
        # Trio is held up here until the future is cancelled: its function must not run afterwards.
        assert entered.set() is None
        assert cancelled.wait(PATIENCE)

    entered, cancelled = threading.Event(), threading.Event()
    holding = channel.submit(hold)
    assert entered.wait(PATIENCE)
    future = channel.submit(note)
    assert future.cancel()
    cancelled.set()
    holding.result(PATIENCE)
    with pytest.raises(CancelledError):
        future.result(PATIENCE)
    channel.submit(trio_is_idle).result(PATIENCE)
    assert not begun.done()


def test_an_abandoned_block_that_trios_thread_collects_is_left(world, channel):
    async def collect(_):
        gc.collect()

    gc.disable()
    try:
        cycle = [channel.method("/shop.Cart/Hang").open(b"")]
        cycle.append(cycle)
        cycle[0].__enter__()
        world.wait(world.began)
        del cycle
        channel.submit(collect).result(PATIENCE)
    finally:
        gc.enable()
    world.wait(world.ended)


async def trio_is_idle(_):
    await trio.testing.wait_all_tasks_blocked()


def test_a_bug_in_trxds_reaches_thread_and_opener_as_one_error(world, monkeypatch):
    monkeypatch.setattr("trxds.resolver.xds_resolver.XdsResolver._handle_messages", lambda *args: 1 / 0)
    told = pytest.raises(TrxdsInternalError, match="please report it")
    with pytest.raises(TrxdsInternalError) as opener, world.channel() as channel, told:
        channel.method("/shop.Cart/Echo")(b"a", timeout=PATIENCE)
    assert opener.value.__cause__ is not None


FORKED = """
import os, sys
import trxds.sync
from trxds import RpcError

def child(*lines):
    pid = os.fork()
    if not pid:
        try:
            for line in lines:
                try:
                    line()
                except RuntimeError as error:
                    print(error, flush=True)
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

with trxds.sync.open_channel("xds:///shop") as channel:
    echo = channel.method("/shop.Cart/Echo")
    echo(b"a")
    child(lambda: echo(b"a"), lambda: channel.method("/shop.Cart/Echo", server_streaming=True).open(b"a").__enter__())
    print(echo(b"the parent goes on").decode(), flush=True)
    with channel.method("/shop.Cart/Echo", client_streaming=True, server_streaming=True).open() as call:
        child(lambda: call.send(b"x"), call.receive, call.done_sending)
        if not os.fork():
            sys.exit(7)  # out of both blocks, and through all that the interpreter does at its end
        print("the child left with", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
        call.send(b"and so does its call")
        print(call.receive().decode(), flush=True)
    if not os.fork():
        with trxds.sync.open_channel("xds:///shop") as own:
            print(own.method("/shop.Cart/Echo")(b"a channel of the child's own").decode(), flush=True)
        os._exit(0)
    os.wait()
"""


def test_a_forked_child_gets_a_runtime_error_and_leaves_its_parent_alone(world):
    environ = os.environ | {
        "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(resources.bootstrap(world.address)),
        "PYTHONPATH": str(Path(trxds.__file__).parent.parent),
    }
    on_purpose = "ignore:This process:DeprecationWarning"  # Python 3.12 warns of threads that a fork leaves behind
    done = subprocess.run(
        [sys.executable, "-W", on_purpose, "-c", FORKED],
        check=False,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    told = "a fork of it: its thread and its connections stayed there; open a channel after the fork"
    lines = done.stdout.splitlines()
    assert lines.pop(2) == "the parent goes on"
    assert [told in line for line in lines[:5]] == [True] * 5, lines
    assert lines[5:] == [
        "the child left with 7",
        "and so does its call",
        "a channel of the child's own",
    ]
    assert done.returncode == 0


def test_opening_a_channel_for_threads_in_a_trio_task_raises_before_it_starts_a_thread():
    async def main():
        with pytest.raises(RuntimeError, match=r"and Trio runs in this one; use trxds\.open_channel"):
            trxds.sync.open_channel("dns:///shop").__enter__()

    before = set(threading.enumerate())
    trio.run(main)
    assert not new_threads(before)
