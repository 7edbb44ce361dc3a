"""A `TrioThread` has ended when it is stopped, and leaves nothing behind."""

import threading

import pytest
from anyio.from_thread import BlockingPortal

from trxds.portal.trio_thread import TrioThread


async def serve(thread, *, task_status):
    task_status.started("serves")
    await thread.leaving.wait()


def trio_threads():
    return [each for each in threading.enumerate() if each.name == "trxds-trio"]


def test_stopping_calls_the_portal_only_when_its_thread_has_ended(monkeypatch):
    """A portal that closes makes a coroutine for the call, and then cannot start its task."""
    call, running = BlockingPortal.call, []

    def noted(portal, *args):
        running.append(trio_threads())
        return call(portal, *args)

    monkeypatch.setattr(BlockingPortal, "call", noted)
    thread = TrioThread(serve)
    assert thread.start() == "serves"
    thread.stop()
    assert running == [[]]


def test_ctrl_c_while_the_thread_ends_waits_for_its_end(monkeypatch):
    def interrupted(*_):
        monkeypatch.undo()
        raise KeyboardInterrupt

    thread = TrioThread(serve)
    thread.start()
    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        thread.stop()
    assert trio_threads() == []
