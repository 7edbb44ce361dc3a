"""The attempts of an open call, one after another: each later one replays what the call has sent so far (A6).

    an attempt has failed -> its backoff -> the next attempt opens a stream -> the replay

Several tasks may use a call at a time, and any of them may be cancelled. One makes the next attempt, the others wait
for it, and if it is cancelled, the next one that uses the call goes on where it was.
"""

from __future__ import annotations

import trio

from trxds.core.status import RpcError, Status
from trxds.transport.client_stream import ClientStream

from .attempt import Attempt
from .replay_buffer import ReplayBuffer
from .rpc import Rpc


class CallAttempts:
    """The attempts of one call. `status` is the call's, once its end is known.

    `retrying` lasts while a task makes another attempt, from its backoff on, and `opening` while that attempt opens its
    stream; they are None otherwise.
    """

    __slots__ = ("_replay", "_rpc", "opening", "retrying", "status")

    def __init__(self, rpc: Rpc, replay: ReplayBuffer) -> None:
        self.status: Status | None = None
        self.retrying: trio.Event | None = None
        self.opening: trio.Event | None = None
        self._rpc = rpc
        self._replay = replay

    def take_status(self) -> Status:
        """Return the call's status, which is that of its stream; only after that has ended."""
        if self.status is None:
            self.status = self._rpc.final_status()
        return self.status

    async def end(self, status: Status) -> RpcError:
        """End the call with a status that is not its stream's; return the exception."""
        self.status = status  # before the checkpoint, in which another task may cancel a call without a status
        error = await self._rpc.failure(status)
        self.status = error.status  # it may have a note
        return error

    @property
    def is_committed(self) -> bool:
        """Return whether no other attempt can follow: the response has begun, or the messages are not kept (A6)."""
        attempt = self._rpc.attempt
        return self._replay.dropped or attempt is None or attempt.committed

    def keep(self, payload: bytes) -> None:
        """Keep a message for a replay, and give it to the call's copies."""
        replay = self._replay
        if replay.mirrors:
            for mirror in replay.mirrors:
                mirror.send(payload)
        if not replay.dropped:
            replay.add(payload)
            # A6: a call is committed when its response has begun or its buffer is full. A first message alone is kept,
            # however large: it is in memory anyway.
            if self.is_committed or (replay.is_full and replay.has_several):
                replay.drop()

    async def wait_open(self) -> tuple[Attempt, ClientStream]:
        """Return the attempt and its stream, once it has one; raise `RpcError` if no attempt can have one."""
        while self.opening is not None:
            await self._rpc.scope.run_with_deadline(self.opening.wait)
        if self.status is not None:
            raise await self._rpc.failure(self.status)
        attempt = self._rpc.attempt
        if attempt is None or attempt.stream is None:
            # The task that was opening it was cancelled.
            await self._open()
            attempt = self._rpc.attempt
        assert attempt is not None and attempt.stream is not None
        return attempt, attempt.stream

    async def replace(self, ended: Attempt) -> bool:
        """Return whether another attempt replaces the one that ended; it replays everything that was sent."""
        # Two tasks may wait for one response, and only one of them makes the next attempt.
        while self.retrying is not None:
            await self._rpc.scope.run_with_deadline(self.retrying.wait)
        # Read after the wait: the other task may have made the attempt, and `Call.cancel` may have ended the call.
        if self._rpc.attempt is not ended or self.status is not None:
            return self.status is None
        if self.is_committed:
            return False  # the usual end of a stream
        self.retrying = trio.Event()
        try:
            if not await self._rpc.has_another_attempt() or self._replay.dropped:
                # Nobody asks again: a failure counts once for the retry throttle.
                self._replay.drop()
                return False
            await self._open()
            return True
        finally:
            self.retrying.set()
            self.retrying = None

    async def _open(self) -> None:
        """Open the next attempt's stream; raise `RpcError` if no attempt can have one."""
        self.opening = trio.Event()
        try:
            # A wait for its stream may have been over with the call's time.
            problem = await self._rpc.scope.run_with_deadline(self._rpc.reopen)
            if problem is not None:
                raise await self.end(problem)
        except trio.Cancelled:
            # A stream in its host's queue has had no replay.
            if self._rpc.attempt is not None:
                self._rpc.attempt.forget_stream()
            raise
        finally:
            self.opening.set()
            self.opening = None
