"""An `EntryQueue` calls functions of other threads in Trio's thread, in order, and wakes it no more than it must."""

import errno
import socket

import pytest
import trio
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

    class Writer:
        def __init__(self, writer):
            self.close = writer.close
            self._writer = writer

        def send(self, data):
            bytes_sent.append(data)
            return self._writer.send(data)

    def pair():
        reader, writer = socketpair()
        return reader, Writer(writer)

    socketpair = socket.socketpair
    monkeypatch.setattr(socket, "socketpair", pair)
    queue, called = EntryQueue(), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        for _ in range(2):
            await wait_all_tasks_blocked()
            for _ in range(3):
                queue.run_sync_soon(called.append, None)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert len(called) == 6
    assert len(bytes_sent) == 2


def test_a_queue_that_gets_no_sockets_cannot_be_made(monkeypatch):
    """Or a channel would open, and its calls would wait for a task that has ended."""

    def refuse():
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socketpair", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        EntryQueue()


async def test_the_end_of_the_queue_closes_its_sockets(monkeypatch):
    def pair():
        pairs.append(socketpair())
        return pairs[-1]

    socketpair, pairs = socket.socketpair, []
    monkeypatch.setattr(socket, "socketpair", pair)
    queue = EntryQueue()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [each.fileno() for each in pairs[0]] == [-1, -1]


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
