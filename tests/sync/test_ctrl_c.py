"""Ctrl-C at any step of leaving a block leaves nothing open in Trio's thread."""

import os
import threading

import pytest

from trxds.portal.entry_queue import EntryQueue
from trxds.portal.hand_over import HeldBlock


def test_ctrl_c_before_a_block_is_told_that_it_is_left_leaves_it(world, channel, monkeypatch):
    def interrupted(*_):
        monkeypatch.undo()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), channel.method("/shop.Cart/Hang").open(b""):
        monkeypatch.setattr(HeldBlock, "throw", interrupted)
    world.wait(world.ended)


def test_leaving_a_block_takes_no_lock_that_ctrl_c_could_leave_taken(channel, monkeypatch):
    """Python's `Condition` is such a lock, and Trio's thread would wait for it for ever."""
    enter, here = threading.Condition.__enter__, threading.get_ident()

    def checked(condition):
        assert threading.get_ident() != here
        return enter(condition)

    with channel.session():
        monkeypatch.setattr(threading.Condition, "__enter__", checked)
    monkeypatch.undo()


def test_a_block_that_cannot_be_entered_in_a_fork_leaves_the_queue_of_the_parent_alone(channel, monkeypatch):
    """Its socket is the parent's."""
    monkeypatch.setattr(os, "getpid", lambda: 0)
    monkeypatch.setattr(EntryQueue, "run_sync_soon", lambda *_: pytest.fail("the queue is the parent's"))
    with pytest.raises(RuntimeError, match="this process is a fork of it"):
        channel.session().__enter__()
    monkeypatch.undo()
