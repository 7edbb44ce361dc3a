"""`ChannelLifecycle` knows whether a channel can still be used, and the error for its users if not."""

from __future__ import annotations

import os
from threading import get_ident
from typing import Protocol
from weakref import WeakSet

import trio

from trxds.core.status import RpcError, Status, StatusCode, TrxdsInternalError
from trxds.resolver.target_uri import canonical

# A thread has one Trio run at a time, so its number stands for the run. Each call asks for it, and Trio's own token
# costs three times as much.
current_run = get_ident


class Lifecycle(Protocol):
    """The lifetime that a call is part of: its channel's, or its session's."""

    @property
    def closed(self) -> bool:
        """Whether it has ended."""

    def not_open_error(self) -> Exception:
        """Return what a call raises that begins after the end."""

    def closed_error(self) -> Exception:
        """Return what a call raises that was open at the end."""


class ChannelLifecycle:
    """A channel is open, then closed: by its block, by a bug in trxds (`crash`), or because this process is a fork."""

    def __init__(self, target: str, canonical_target: str = "") -> None:
        self.target = target
        self.canonical_target = canonical_target or canonical(target)  # with a scheme
        self.closed = False
        self.crash: BaseException | None = None
        self.run = current_run()
        self._forked = False
        self._process = os.getpid()

    def close(self, crash: BaseException | None) -> None:
        """Close the channel at the end of its block, or because of the bug `crash`. Synchronous."""
        self.closed, self.crash = True, crash

    def mark_forked(self) -> None:
        """Mark the channel as one of the parent process.

        It sends and wakes nothing: sockets and tasks are the parent's.
        """
        self.closed = self._forked = True

    def check_process(self) -> None:
        """Raise `RuntimeError` in a fork."""
        if self._forked:
            raise self.closed_error()

    def check_run(self) -> None:
        """Raise `RuntimeError` in a fork, and in another Trio run than the channel's, which cannot wake its tasks."""
        self.check_process()
        if current_run() != self.run:
            remedy = "open one there, or use trxds.sync.open_channel"
            raise RuntimeError(f"the channel to {self.target} belongs to another Trio run; {remedy}")

    def check_open(self) -> None:
        """Raise what a call raises that begins when the channel is closed, or in another Trio run."""
        if self.closed:
            raise self.not_open_error()
        self.check_run()

    def not_open_error(self) -> Exception:
        """Return the exception of a call that begins when the channel is closed."""
        if self._forked:
            return self.closed_error()
        return trio.ClosedResourceError(f"the channel to {self.target} is closed")

    def closed_error(self) -> Exception:
        """Return the exception of a call that was open when the channel closed."""
        if self._forked:
            return RuntimeError(
                f"the channel to {self.target} was opened in process {self._process}, and this process is a "
                "fork of it: its tasks and connections stayed there; open a channel after the fork"
            )
        if self.crash is None:
            return RpcError(Status(StatusCode.CANCELLED, "channel closed"))
        error = TrxdsInternalError(f"a bug in trxds ended the channel to {self.target}; please report it")
        error.__cause__ = self.crash
        return error


# -- after a fork

# Of all Trio runs: each of their threads adds in one step, and only a child, which has one thread, iterates.
_CHANNELS: WeakSet[ChannelLifecycle] = WeakSet()


def mark_after_fork(channel: ChannelLifecycle) -> None:
    """Mark the channel as unusable in every child that this process forks from now on.

    The child has its parent's channels and none of their tasks, so every use of one would hang. Therefore the child
    marks them at once, and every use raises. No call has to check the process: the child finds the open channels by
    `os.register_at_fork`.
    """
    _CHANNELS.add(channel)


def _mark_all() -> None:
    for channel in _CHANNELS:
        channel.mark_forked()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    # Once: Python cannot unregister it, and `trxds.sync` has a run for each channel.
    os.register_at_fork(after_in_child=_mark_all)
