"""Hedging (A6) sends the same call several times, one after the other, and takes the first response.

The messages that the caller sends before an attempt is chosen are buffered, and sent on each without waiting: the
buffer is bounded, and the connections take them as they can. So an attempt needs one task, which waits for its host
and its headers. These tasks are children of one task, `run`, which ends when an attempt is chosen. The call then goes
on with the chosen stream as if there had been no other.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import trio
from msgspec import structs

from trxds.core.status import Status
from trxds.resolver.method_config import HedgingPolicy
from trxds.transport.client_stream import ClientStream

from .attempt import Attempt, AttemptCommitted, AttemptFailed, AttemptOutcome
from .background_services import run_with_services
from .call_scope import CallScope
from .lifecycle import ChannelLifecycle
from .replay_buffer import ReplayBuffer
from .retry import may_repeat, pushback
from .retry_throttle import RetryThrottle


class HedgedCall(Protocol):
    """`HedgedCall` is the part of a call that hedging uses."""

    def new_attempt(self, number: int, refusals: int = 0, transparent: bool = False) -> Attempt:
        """Return a new attempt with a pick of its own. A server may have seen `number` earlier ones."""

    def commit(self, attempt: Attempt) -> None:
        """Commit the call to that attempt."""

    def on_headers(self) -> None:
        """Handle the response headers of the chosen attempt."""


@dataclass(slots=True, eq=False, repr=False)
class HedgedAttempt:
    """One hedged attempt, run by a task of its own. `stream` is its stream once that has every message sent so far."""

    attempt: Attempt
    stream: ClientStream | None = None


class HedgingState:
    """All attempts of one call. `decided` is set once one of them is chosen, or `problem` is the reason why none is."""

    def __init__(
        self,
        call: HedgedCall,
        path: str,
        policy: HedgingPolicy,
        max_attempts: int,
        replay: ReplayBuffer | None,
        throttle: RetryThrottle | None,
        lifecycle: ChannelLifecycle,
    ) -> None:
        """At most `max_attempts` are made. Without `replay`, each sends the call's one message with its headers."""
        self.decided = trio.Event()
        self.problem: Status | None = None
        self._call = call
        self._path = path
        self._policy = structs.replace(policy, max_attempts=min(policy.max_attempts, max_attempts))
        self._replay = replay
        self._throttle = throttle
        self._lifecycle = lifecycle
        self._running: list[HedgedAttempt] = []
        self._chosen: HedgedAttempt | None = None
        self._last_failed: tuple[HedgedAttempt, Status] | None = None  # the call's failure, if there is to be no other
        self._attempts_made = 0
        self._next_at = -math.inf  # when the next attempt is due; `inf` if there is to be none
        self._scope = trio.CancelScope()  # of `run`
        self._changed = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<HedgingState {self._path}: {self._attempts_made} made, {len(self._running)} running>"

    # -- making attempts

    async def run(self) -> None:
        """Make attempts as they become due, until one is chosen."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                while self._next_at < math.inf:
                    with trio.move_on_at(self._next_at):
                        await self._changed.park()
                    # Woken early by a failure, which may change the time, or by an event that does not.
                    if trio.current_time() >= self._next_at:
                        self._make_one(nursery)

    @asynccontextmanager
    async def run_in_background(self, scope: CallScope) -> AsyncIterator[None]:
        """Make attempts in the background of the caller's block, which begins with the first stream and ends them."""
        async with run_with_services(f"the call to {self._path}", {"hedges": self.run}, lambda bug: self.stop()):
            await scope.run_with_deadline(self._wait_for_stream)
            yield

    def _make_one(self, nursery: trio.Nursery) -> None:
        # A6: the retry throttle stops hedges and never the first attempt. If none runs, the last one's failure stands.
        if self._attempts_made and self._throttle is not None and not self._throttle.allows_retry:
            self._next_at = math.inf
            if not self._running and self._last_failed is not None:
                failed, status = self._last_failed
                self._running.append(failed)
                self._choose(failed, status)
            return
        hedge = HedgedAttempt(self._call.new_attempt(self._attempts_made))
        self._attempts_made += 1
        self._running.append(hedge)
        has_more = self._attempts_made < self._policy.max_attempts
        self._next_at = trio.current_time() + self._policy.delay if has_more else math.inf
        nursery.start_soon(self._run, hedge, name=f"hedge/{self._path}/{hedge.attempt.number}")

    async def _run(self, hedge: HedgedAttempt) -> None:
        """Run one attempt until it is chosen or has failed; it is cancelled when another one is chosen."""
        try:
            outcome = await self._run_attempt(hedge)
            if isinstance(outcome, AttemptCommitted):
                self._choose(hedge)
            else:
                self._on_failure(hedge, outcome)
        except Exception:
            # When the channel closes, the call itself raises the error; here it would end the nursery too.
            if not self._lifecycle.closed:
                raise
        finally:
            # A cancelled attempt may have opened a stream in its last step.
            if hedge is not self._chosen:
                hedge.attempt.cancel()

    async def _run_attempt(self, hedge: HedgedAttempt) -> AttemptOutcome:
        """Run one attempt, and its transparent retries, until it has response headers or has failed."""
        # The task that waits for the choice keeps the call's deadline, so an attempt has none to keep.
        scope = CallScope(self._lifecycle, self._path, trio.current_time(), None, "its first attempt")
        while True:
            attempt = hedge.attempt
            failed = await attempt.start(scope, partial(self._on_headers, hedge))
            if failed is not None:
                attempt.end(failed.status)
                return failed
            # No checkpoint since the replay in `start`: a message goes out by that or by `send`, and never by both.
            hedge.stream = attempt.stream
            assert hedge.stream is not None
            self._changed.unpark_all()
            await attempt.wait_response(hedge.stream.wait_headers, scope)
            outcome = attempt.outcome()
            if isinstance(outcome, AttemptCommitted) or not outcome.refused:
                return outcome
            # A6: a transparent retry does not count as another hedge.
            attempt.end()
            hedge.attempt = self._call.new_attempt(attempt.number, attempt.refusals_so_far, transparent=True)
            hedge.stream = None

    # -- sending

    def send(self, message: bytes) -> None:
        """Send a message on every attempt, including those to come. Synchronous."""
        assert self._replay is not None
        # An attempt that has no open stream yet gets the message from here, by its replay.
        self._replay.add(message)
        for hedge in self._running:
            if hedge.stream is not None:
                hedge.stream.send_many([message])

    def end(self) -> None:
        """Half-close every attempt's stream; the replay buffer does it for attempts to come."""
        for hedge in self._running:
            if hedge.stream is not None:
                hedge.stream.end()

    async def choose_any(self) -> None:
        """Choose the oldest attempt that has a stream; wait until there is one."""
        while not self.decided.is_set():
            for hedge in self._running:
                # Not a stream in its host's queue: if it were refused there, nothing could be replayed any more.
                if hedge.stream is not None:
                    return self._choose(hedge)
            await self._changed.park()

    async def _wait_for_stream(self) -> None:
        """Wait until an attempt has a stream, or the call is decided without one."""
        while not self.decided.is_set() and not any(hedge.attempt.stream is not None for hedge in self._running):
            await self._changed.park()

    # -- outcomes of attempts

    def _on_headers(self, hedge: HedgedAttempt) -> None:
        """Choose the attempt, whose response headers have come; the task that reads its connection calls this."""
        self._choose(hedge)
        # Also of an attempt that was chosen before, because the buffer was full.
        if hedge is self._chosen:
            self._call.on_headers()

    def _on_failure(self, hedge: HedgedAttempt, failed: AttemptFailed) -> None:
        """Handle an attempt that ended without headers; a fatal status, or the last attempt's, becomes the call's."""
        if hedge not in self._running:
            return  # another one was chosen
        status = failed.status
        if failed.final:
            return self._choose(hedge, status)  # A6: a call that is dropped fails at once
        is_non_fatal = failed.timed_out or status.code in self._policy.non_fatal
        delay = pushback(failed.trailing)
        # Asked even if no attempt is left to make, because a failure takes a token of the throttle (A6).
        if not may_repeat(is_non_fatal, delay, self._throttle):
            self._next_at = math.inf
        elif self._next_at < math.inf:
            # A6: after a non-fatal failure the next attempt is due at once, or after the server's pushback.
            self._next_at = trio.current_time() + (delay or 0.0)
        if is_non_fatal and (len(self._running) > 1 or self._next_at < math.inf):
            self._running.remove(hedge)
            self._last_failed = hedge, status
            self._changed.unpark_all()
        else:
            self._choose(hedge, status)

    def _choose(self, hedge: HedgedAttempt, failure: Status | None = None) -> None:
        # Its headers have chosen it already, or another one was chosen.
        if hedge not in self._running:
            return
        self._chosen = hedge
        # Taken out first, because `stop` cancels all that are in there.
        self._running.remove(hedge)
        self._next_at = math.inf
        # With a stream, the call takes status and trailing metadata from there.
        self.problem = failure if hedge.attempt.stream is None else None
        if self._replay is not None:
            # The chosen stream has every message, and gets those that follow directly.
            self._replay.drop()
        self._call.commit(hedge.attempt)
        self.stop()
        self.decided.set()
        self._changed.unpark_all()

    # -- the end

    def stop(self) -> None:
        """Cancel all attempts but the chosen one. Synchronous and idempotent."""
        # A6: the other attempts are cancelled. `_run` cancels a stream that a task opens in its last step.
        self._scope.cancel(reason="the hedged call is over")
        running, self._running = self._running, []
        for hedge in running:
            hedge.attempt.cancel()

    def give_up(self, problem: Status) -> None:
        """End the call with `problem`, whatever its attempts return."""
        if not self.decided.is_set():
            self.problem = problem
            self.decided.set()
        self.stop()
