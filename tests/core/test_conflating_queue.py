"""A `ConflatingQueue` delivers the newest value of each sender once, and senders can wait until it was read."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trxds.core.conflating_queue import ConflatingQueue


async def test_a_newer_message_replaces_an_unread_one_of_its_sender():
    queue = ConflatingQueue[int]()
    queue.put("a", 1)
    queue.put("b", 2)
    queue.put("a", 3)
    assert await queue.next() == {"a": 3, "b": 2}


async def test_a_message_of_a_conflating_queue_is_read_once(autojump_clock):
    queue = ConflatingQueue[int]()
    queue.put("a", 1)
    await queue.next()
    assert await queue.next(trio.current_time() + 5) == {}


async def test_the_reader_of_a_conflating_queue_waits_for_a_message(nursery, autojump_clock):
    queue = ConflatingQueue[int]()
    nursery.start_soon(_put_after, queue, 3)
    began = trio.current_time()
    assert await queue.next() == {"late": 1}
    assert trio.current_time() - began == 3


async def _put_after(queue, seconds):
    await trio.sleep(seconds)
    queue.put("late", 1)


async def test_a_second_reader_of_a_conflating_queue_is_a_busy_resource_error(nursery):
    queue = ConflatingQueue[int]()
    nursery.start_soon(queue.next)
    await wait_all_tasks_blocked()
    with pytest.raises(trio.BusyResourceError):
        await queue.next()
    queue.put("a", 1)


async def test_a_cancelled_reader_of_a_conflating_queue_loses_no_message(autojump_clock):
    queue = ConflatingQueue[int]()
    with trio.move_on_after(1):
        await queue.next()
    queue.put("a", 1)
    assert await queue.next() == {"a": 1}


async def test_a_reader_that_begins_takes_what_is_there_before_others_run(nursery):
    queue = ConflatingQueue[int]()
    queue.put("a", 1)
    nursery.start_soon(_put_after, queue, 0)
    assert await queue.next() == {"a": 1}
    assert await queue.next() == {"late": 1}


async def test_a_reader_that_begins_cancelled_takes_nothing():
    queue = ConflatingQueue[int]()
    queue.put("a", 1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await queue.next()
    assert scope.cancelled_caught
    assert await queue.next() == {"a": 1}


async def test_a_discarded_message_is_not_read(autojump_clock):
    queue = ConflatingQueue[int]()
    queue.put("dead", 1)
    queue.discard("dead")
    assert await queue.next(trio.current_time() + 1) == {}


async def test_messages_to_a_closed_conflating_queue_are_dropped():
    queue = ConflatingQueue[int]()
    queue.close()
    assert queue.has_seen(queue.put("a", 1))


async def test_next_is_a_checkpoint_even_with_unread_messages():
    queue = ConflatingQueue[int]()
    queue.put("a", 1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await queue.next()
    assert scope.cancelled_caught
    assert await queue.next() == {"a": 1}, "nothing is lost by the cancelled call"
