"""The other side, or a signal, may come at any step of a thread that queues a function, and of the task that calls it.

A step is an operation of the interpreter, between two of which it may change threads, or run a signal handler.
"""

import sys
import threading
from collections import deque
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count

import pytest
import trio
from support.threads import PATIENCE, thread
from trio.testing import wait_all_tasks_blocked

from trxds.portal.entry_queue import EntryQueue

QUEUE = {EntryQueue.run_sync_soon.__code__}
TASK = {EntryQueue.run.__code__, EntryQueue._call_all.__code__}


@contextmanager
def at_step(number, codes, action):
    """Do the action before a step of these functions in this thread; yields a list, empty until then."""
    done = []

    def trace(frame, event, argument):
        nonlocal number
        if frame.f_code not in codes:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            number -= 1
            if number == 0:
                done.append(True)
                action()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield done
    finally:
        sys.settrace(before)


def enter(queue, called, refused):
    """Queue a function, and note whether the queue refused it."""
    try:
        queue.run_sync_soon(called.append, "called")
        refused.append(False)
    except trio.RunFinishedError:
        refused.append(True)


async def test_a_keyboard_interrupt_at_any_step_stops_no_function():
    def interrupt():
        raise KeyboardInterrupt

    queue, called = EntryQueue(), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        for number in count(1):
            await wait_all_tasks_blocked()
            called.clear()
            with at_step(number, QUEUE, interrupt) as is_interrupted, suppress(KeyboardInterrupt):
                queue.run_sync_soon(called.append, 1)
            queue.run_sync_soon(called.append, 2)
            await wait_all_tasks_blocked()
            assert called == [1, 2] or (is_interrupted and called == [2]), number
            if not is_interrupted:
                break
        nursery.cancel_scope.cancel()


async def test_a_signal_handler_at_any_step_may_wait_for_another_function():
    async def end(ended):
        ended.set()

    def handle():
        ended = threading.Event()
        queue.run_sync_soon(nursery.start_soon, partial(end, ended))  # it takes another turn of Trio
        assert ended.wait(PATIENCE)

    def enter_and_handle(number):
        with at_step(number, QUEUE, handle) as is_handled:
            enter(queue, called, refused)
        return is_handled

    queue, called, refused = EntryQueue(), [], []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        for number in count(1):
            await wait_all_tasks_blocked()
            is_handled = await trio.to_thread.run_sync(enter_and_handle, number)
            await wait_all_tasks_blocked()
            assert len(called) == number
            if not is_handled:
                break
        nursery.cancel_scope.cancel()


async def test_a_queue_that_ends_at_any_step_calls_the_function_or_refuses_it():
    def enter_and_end(number):
        def end():
            trio.from_thread.run_sync(nursery.cancel_scope.cancel)
            assert ended.wait(PATIENCE)

        with at_step(number, QUEUE, end) as is_ended:
            enter(queue, called, refused)
        return is_ended

    found = set()
    for number in count(1):
        queue, ended, called, refused = EntryQueue(), threading.Event(), [], []

        async def run(queue=queue, ended=ended):
            try:
                await queue.run()
            finally:
                ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await wait_all_tasks_blocked()
            with trio.CancelScope(shield=True):
                is_ended = await trio.to_thread.run_sync(enter_and_end, number)
                await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert refused == [not called], number
        found.add(refused.pop())
        if not is_ended:
            break
    assert found == {False, True}


@pytest.mark.parametrize("comes_from", ["a finalizer", "a thread"])
async def test_a_function_that_comes_at_any_step_of_the_task_is_called_or_refused(comes_from):
    def come():
        if comes_from == "a finalizer":
            enter(queue, called, refused)
        else:
            with thread(enter, queue, called, refused):
                pass

    found = set()
    for number in count(1):
        queue, called, refused = EntryQueue(), [], []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(queue.run)
            await wait_all_tasks_blocked()
            with at_step(number, TASK, come) as has_come:
                queue.run_sync_soon(int)
                await wait_all_tasks_blocked()
                assert len(called) == len(refused), number  # before the end none is refused
                nursery.cancel_scope.cancel()
                with trio.CancelScope(shield=True):
                    await wait_all_tasks_blocked()
        if not has_come:
            break
        assert refused == [not called], number
        found.add(refused.pop())
    assert found == {False, True}


class Stopped(deque):
    """A thread stops when it has queued its function, and before it looks at the queue's task."""

    def __init__(self):
        super().__init__()
        self.has_stopped, self.goes_on = threading.Event(), threading.Event()

    def append(self, call):
        super().append(call)
        if not self.has_stopped.is_set():
            self.has_stopped.set()
            assert self.goes_on.wait(PATIENCE)


async def test_a_thread_that_goes_on_at_any_step_of_the_task_has_its_function_called_or_refused(monkeypatch):
    def go_on():
        calls.goes_on.set()
        entering.join()

    found = set()
    for number in count(1):
        queue, calls, called, refused = EntryQueue(), Stopped(), [], []
        monkeypatch.setattr(queue, "_calls", calls)
        entering = threading.Thread(target=enter, args=(queue, called, refused))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(queue.run)
            await wait_all_tasks_blocked()
            entering.start()
            await trio.to_thread.run_sync(calls.has_stopped.wait, PATIENCE)
            with at_step(number, TASK, go_on) as has_gone_on:
                nursery.cancel_scope.cancel()
                with trio.CancelScope(shield=True):
                    await wait_all_tasks_blocked()
            go_on()
        assert refused == [not called], number
        found.add(refused.pop())
        if not has_gone_on:
            break
    assert found == {False, True}
