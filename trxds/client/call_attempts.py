"""The attempts of a call, one after another: each later one replays what the call has sent so far (A6).

    an attempt has failed -> its backoff -> the next attempt opens a stream -> the replay

Several tasks may use a call at a time, and any of them may be cancelled. One makes the next attempt, the others wait
for it, and if it is cancelled, the next one that uses the call goes on where it was.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

import trio

from trxds.core.status import RpcError, Status
from trxds.transport.client_stream import ClientStream

from .attempt import Attempt, AttemptFailed
from .call_scope import CallScope
from .call_telemetry import CallTelemetry
from .replay_buffer import ReplayBuffer
from .retry import PendingRetry, RetryState


class RetriedCall(Protocol):
    """`RetriedCall` is the part of a call that its attempts use."""

    scope: CallScope
    telemetry: CallTelemetry | None
    attempt: Attempt | None
    """The present attempt; with hedging, the chosen one."""

    def new_attempt(self, number: int, refusals: int, transparent: bool = False) -> Attempt:
        """Return a new attempt. A server may have seen `number` earlier ones, and has refused `refusals` others."""

    def on_headers(self) -> None:
        """Handle the response headers of the present attempt."""

    async def failure(self, status: Status) -> RpcError:
        """End the call with `status`; return the exception for its caller."""


class CallAttempts:
    """Makes the later attempts of one call. `retry` is None without a retry policy, `replay` for a unary call.

    `retrying` lasts while a task makes another attempt, from its backoff on, and `opening` while that attempt opens its
    stream; they are None otherwise.
    """

    __slots__ = ("_call", "_replay", "_retry", "opening", "retrying")

    def __init__(self, call: RetriedCall, retry: RetryState | None, replay: ReplayBuffer | None) -> None:
        self.retrying: trio.Event | None = None
        self.opening: trio.Event | None = None
        self._call = call
        self._retry = retry
        self._replay = replay

    @property
    def is_committed(self) -> bool:
        """Return whether no other attempt can follow: the response has begun, or the messages are not kept (A6)."""
        attempt, replay = self._call.attempt, self._replay
        return (replay is not None and replay.dropped) or attempt is None or attempt.committed

    @property
    def is_backing_off(self) -> bool:
        """Return whether an attempt has failed, and the next one has not begun."""
        return self._retry is not None and self._retry.pending is not None

    def has_counted(self, attempt: Attempt) -> bool:
        """Return whether the retry policy has been asked about this attempt, which counts its failure."""
        return self._retry is not None and self._retry.attempts_made > attempt.number

    async def wait_open(self) -> tuple[Attempt, ClientStream]:
        """Return the attempt and its stream, once it has one; raise `RpcError` if the call ends before."""
        call = self._call
        while self.opening is not None:
            await call.scope.run_with_deadline(self.opening.wait)
        if call.scope.status is not None:
            raise await call.failure(call.scope.status)
        if call.attempt is None or call.attempt.stream is None:
            # The task that was opening it was cancelled.
            await self._open()
        attempt = call.attempt
        assert attempt is not None and attempt.stream is not None
        return attempt, attempt.stream

    async def replace(self, ended: Attempt) -> bool:
        """Return whether another attempt replaces the one that ended; it replays everything that was sent.

        The cluster is held through the backoff, so an update cannot remove it (A60).
        """
        call, scope = self._call, self._call.scope
        # Two tasks may wait for one response, and only one of them makes the next attempt.
        while self.retrying is not None:
            await scope.run_with_deadline(self.retrying.wait)
        # Read after the wait: the other task may have made the attempt, and `Call.cancel` may have ended the call.
        if call.attempt is not ended or scope.status is not None:
            return scope.status is None
        if self.is_committed:
            return False  # the usual end of a stream
        outcome = ended.outcome()
        if not isinstance(outcome, AttemptFailed) or (self._retry is None and not outcome.refused):
            self._commit()
            return False
        self.retrying = trio.Event()
        try:
            if not await self._retry_attempt(ended, outcome):
                self._commit()
                return False
            await self._open()
            return True
        finally:
            self.retrying.set()
            self.retrying = None

    def _commit(self) -> None:
        """Have no further attempt, so that nobody asks again: a failure counts once for the retry throttle."""
        if self._replay is not None:
            self._replay.drop()

    async def recover(self, failed: AttemptFailed | None) -> Status | None:
        """Start further attempts, as long as they fail before they have a stream and may be repeated.

        Return the status with which the call failed; None once it has a stream.
        """
        call = self._call
        while failed is not None:
            attempt = call.attempt
            assert attempt is not None
            if failed.final or not await self._retry_attempt(attempt, failed):
                attempt.end(failed.status)
                return failed.status
            failed = await self._start_attempt()
        return None

    async def _open(self) -> None:
        """Open the next attempt's stream; raise `RpcError` if no attempt can have one."""
        self.opening = trio.Event()
        try:
            # A wait for its stream may have been over with the call's time.
            problem = await self._call.scope.run_with_deadline(self._start)
            if problem is not None:
                raise await self._call.failure(problem)
        except trio.Cancelled:
            # A stream in its host's queue has had no replay.
            if self._call.attempt is not None:
                self._call.attempt.forget_stream()
            raise
        finally:
            self.opening.set()
            self.opening = None

    async def _start(self) -> Status | None:
        if self._retry is not None and self._retry.pending is not None:
            # The attempt has found no host, and the caller has cancelled its wait for the backoff.
            return await self.recover(AttemptFailed(self._retry.pending.failure))
        return await self.recover(await self._start_attempt())

    async def _start_attempt(self) -> AttemptFailed | None:
        attempt = self._call.attempt
        assert attempt is not None
        return await attempt.start(self._call.scope, self._call.on_headers)

    async def _retry_attempt(self, attempt: Attempt, failed: AttemptFailed) -> bool:
        """Replace the attempt, which has failed, after its backoff, if it may be repeated; return whether it was."""
        call, retry = self._call, self._retry
        if failed.refused:
            # A6: a transparent retry is made at once, without a policy, and does not count as an attempt.
            attempt.end()
            call.attempt = call.new_attempt(attempt.number, attempt.refusals_so_far, transparent=True)
            return True
        if retry is None:
            return False
        # A caller may cancel its wait and come again: the failure counts once, and the backoff goes on.
        if retry.pending is None:
            # A6: a failed pick counts as a failed attempt, so both come here; a drop does not.
            delay = retry.next_delay(failed.status, failed.trailing, failed.timed_out)
            if delay is None:
                return False
            # Before the backoff: a call that only waits is not in flight, so circuit breakers do not count it (A32).
            attempt.end(failed.status)
            if call.telemetry is not None:
                call.telemetry.record_backoff(delay)
            retry.pending = PendingRetry(failed.status, trio.current_time() + delay)
        call.scope.waiting_for = f"the next attempt, after {failed.status}"
        await call.scope.run_with_deadline(partial(trio.sleep_until, retry.pending.due))
        retry.pending = None
        if call.scope.status is not None:
            return False  # `Call.cancel` came in the step in which the backoff was over
        attempt.args.drop_draws = None  # A27: it is an RPC of its own for the cluster
        call.attempt = call.new_attempt(attempt.number + 1, attempt.refusals)
        return True
