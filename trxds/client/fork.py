"""After a fork the child has its parent's channels and none of their tasks, so every use of one would hang.

Therefore the child marks them at once, and every use raises. No call has to check the process: the channels of a Trio
run are in a set of that run, which the child finds by `os.register_at_fork`.
"""

from __future__ import annotations

import os
from functools import partial
from weakref import ReferenceType, WeakSet, ref

import trio

from .lifecycle import ChannelLifecycle

_CHANNELS: trio.lowlevel.RunVar[WeakSet[ChannelLifecycle]] = trio.lowlevel.RunVar("trxds.channels")


def mark_after_fork(channel: ChannelLifecycle) -> None:
    """Mark the channel as unusable in every child that this process forks from now on."""
    try:
        channels = _CHANNELS.get()
    except LookupError:
        channels = WeakSet()
        _CHANNELS.set(channels)
        if hasattr(os, "register_at_fork"):  # Windows does not fork
            # Python cannot unregister it, so the handler has a weak reference: a run that is over is not kept alive.
            os.register_at_fork(after_in_child=partial(_mark_all, ref(channels)))
    channels.add(channel)


def _mark_all(channels: ReferenceType[WeakSet[ChannelLifecycle]]) -> None:
    for channel in channels() or ():
        channel.mark_forked()
