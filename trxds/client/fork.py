"""After a fork the child has the channels of its parent and none of their tasks: what is asked of them would hang.

So the child tells them at once, and every use of one raises. No call looks for it: the channels of a Trio run
are kept in a set of that run, which the interpreter leads a child to.
"""

from __future__ import annotations

import os
from functools import partial
from weakref import ReferenceType, WeakSet, ref

import trio

from .lifecycle import ChannelLifecycle

_CHANNELS: trio.lowlevel.RunVar[WeakSet[ChannelLifecycle]] = trio.lowlevel.RunVar("trxds.channels")


def tell_after_fork(channel: ChannelLifecycle) -> None:
    """From now on, a child of this process is told that it has no use for this channel."""
    try:
        channels = _CHANNELS.get()
    except LookupError:
        channels = WeakSet()
        _CHANNELS.set(channels)
        if hasattr(os, "register_at_fork"):  # Windows does not fork
            # It cannot be taken back: of a run that is over, a dead reference remains.
            os.register_at_fork(after_in_child=partial(_tell, ref(channels)))
    channels.add(channel)


def _tell(channels: ReferenceType[WeakSet[ChannelLifecycle]]) -> None:
    for channel in channels() or ():
        channel.mark_forked()
