"""An `EntryQueue` calls functions of other threads in Trio's thread, in order, and wakes it no more than it must."""

import threading
from collections import deque
from functools import partial

import pytest
import trio
from support.threads import PATIENCE
from trio.testing import wait_all_tasks_blocked

from trxds.portal.entry_queue import EntryQueue


async def test_functions_of_another_thread_are_called_in_order():
    called = []
    queue = EntryQueue()

    def enter():
        for number in range(100):
            queue.run_sync_soon(called.append, number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        await wait_all_tasks_blocked()
        await trio.to_thread.run_sync(enter)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert called == list(range(100))


async def test_functions_that_are_queued_together_wake_trio_once(monkeypatch):
    bytes_sent = []
    queue = EntryQueue()
    writer = queue._writer

    class Writer:
        def send(self, data):
            bytes_sent.append(data)
            return writer.send(data)

        def close(self):
            writer.close()

    monkeypatch.setattr(queue, "_writer", Writer())
    called = []

    def enter():
        for _ in range(3):
            queue.run_sync_soon(called.append, None)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        for _ in range(2):
            await wait_all_tasks_blocked()
            await trio.to_thread.run_sync(enter)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert len(called) == 6
    assert len(bytes_sent) == 2


async def test_a_keyboard_interrupt_while_a_thread_wakes_trio_loses_no_function(monkeypatch):
    queue = EntryQueue()
    writer = queue._writer

    class InterruptedWriter:
        def send(self, data):
            monkeypatch.setattr(queue, "_writer", writer)
            raise KeyboardInterrupt

    called = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        await wait_all_tasks_blocked()
        monkeypatch.setattr(queue, "_writer", InterruptedWriter())
        with pytest.raises(KeyboardInterrupt):
            queue.run_sync_soon(called.append, 1)
        queue.run_sync_soon(called.append, 2)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        assert called == [1, 2]


async def test_a_function_that_queues_itself_again_starves_no_task():
    called = []
    queue = EntryQueue()

    def again():
        called.append(None)
        if len(called) < 1000:
            queue.run_sync_soon(again)

    async with trio.open_nursery() as nursery:
        queue.run_sync_soon(again)
        nursery.start_soon(queue.run)
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        assert 0 < len(called) < 10
        nursery.cancel_scope.cancel()
        called.extend([None] * 1000)


async def test_functions_that_are_queued_before_the_end_are_called_and_later_ones_refused():
    called = []
    queue = EntryQueue()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        queue.run_sync_soon(called.append, "before")
    assert called == ["before"]
    with pytest.raises(trio.RunFinishedError):
        queue.run_sync_soon(called.append, "after")


class Interrupted(deque):
    """A signal handler runs when a function has been queued, and the lock is still held."""

    def __init__(self, handler):
        super().__init__()
        self._handlers = [handler]

    def append(self, call):
        super().append(call)
        if self._handlers:
            self._handlers.pop()()


@pytest.mark.parametrize("is_ending", [False, True])
async def test_a_signal_handler_may_wait_for_a_function_while_another_is_being_queued(is_ending, monkeypatch):
    queue, ended, waited = EntryQueue(), threading.Event(), []

    async def end():
        ended.set()

    def begin():
        nursery.start_soon(end)  # it takes another turn of Trio
        if is_ending:
            queue_scope.cancel()

    def handler():
        queue.run_sync_soon(begin)
        waited.append(ended.wait(PATIENCE))

    async def run():
        with queue_scope:
            await queue.run()

    queue_scope = trio.CancelScope()
    monkeypatch.setattr(queue, "_calls", Interrupted(handler))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await wait_all_tasks_blocked()
        await trio.to_thread.run_sync(partial(queue.run_sync_soon, waited.append, "called"))
        await wait_all_tasks_blocked()
        queue_scope.cancel()
    assert sorted(waited, key=str) == [True, "called"]


async def test_a_finalizer_in_trios_thread_does_not_wait_for_a_thread_that_queues_a_function():
    queue, called, held, queued, waited = EntryQueue(), [], threading.Event(), threading.Event(), []

    def hold():
        with queue._lock:
            held.set()
            waited.append(queued.wait(PATIENCE))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        nursery.start_soon(trio.to_thread.run_sync, hold)
        await trio.to_thread.run_sync(held.wait)
        queue.run_sync_soon(called.append, 1)
        queued.set()
        await wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()
    assert (waited, called) == ([True], [1])
