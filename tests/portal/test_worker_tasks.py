"""`WorkerTasks` run one function after the other, and keep nothing of those that have ended."""

import gc
import weakref
from contextvars import Context, ContextVar

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trxds.portal import worker_tasks
from trxds.portal.worker_tasks import WorkerTasks

span: ContextVar[object] = ContextVar("span", default=None)


@pytest.fixture
async def workers():
    async with trio.open_nursery() as nursery:
        yield WorkerTasks(nursery, "a worker")
        nursery.cancel_scope.cancel()


async def test_a_task_goes_on_to_the_next_function(workers):
    tasks = []

    async def note():
        tasks.append(trio.lowlevel.current_task())

    for _ in range(2):
        workers.run_soon(note)
        await wait_all_tasks_blocked()
    assert tasks[0] is tasks[1]
    assert tasks[0].name == "a worker"


async def test_functions_at_the_same_time_have_a_task_each(workers):
    tasks = set()

    async def hold():
        tasks.add(trio.lowlevel.current_task())
        await trio.sleep_forever()

    for _ in range(3):
        workers.run_soon(hold)
    await wait_all_tasks_blocked()
    assert len(tasks) == 3


async def test_each_function_has_the_context_in_which_it_was_begun(workers):
    spans = []

    async def note():
        spans.append(span.get())
        span.set("the function's own")

    def begin(value):
        span.set(value)
        workers.run_soon(note)

    for value in ("first", "second"):
        Context().run(begin, value)
        await wait_all_tasks_blocked()
    Context().run(workers.run_soon, note)
    await wait_all_tasks_blocked()
    assert spans == ["first", "second", None]


async def test_an_idle_task_keeps_nothing_of_its_last_function(workers):
    class Kept:
        pass

    def begin(number):
        request, own = Kept(), Kept()

        async def function():
            await trio.lowlevel.checkpoint()
            assert request

        span.set(own)
        workers.run_soon(function)
        return weakref.ref(request), weakref.ref(own)

    references = [reference for number in range(2) for reference in Context().run(begin, number)]
    await wait_all_tasks_blocked()
    gc.collect()
    assert [reference() for reference in references] == [None] * 4


async def test_no_more_tasks_stay_idle_than_allowed(workers, monkeypatch):
    monkeypatch.setattr(worker_tasks, "MAX_IDLE", 2)
    for _ in range(5):
        workers.run_soon(trio.lowlevel.checkpoint)
    await wait_all_tasks_blocked()
    assert len(workers._nursery.child_tasks) == 2


async def test_a_cancelled_idle_task_gets_no_function():
    begun = []

    async def note():
        begun.append(trio.lowlevel.current_task())
        await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        workers = WorkerTasks(nursery, "a worker")
        workers.run_soon(note)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        workers.run_soon(note)
    assert len(begun) == 2
    assert begun[0] is not begun[1]
