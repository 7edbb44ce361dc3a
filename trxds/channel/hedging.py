"""Hedging (A6): the same call sent several times, a little after one another, and the first answer is the call's.

What the caller says before one attempt has been chosen is kept, and said on each: plainly, for it is bounded and the
connections take it as they can. So an attempt is one task, which waits for its host and its headers; they
are children of one task, `run`, and that ends when an attempt is chosen. Whoever holds the call goes on with
the chosen stream as if there had been no other.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import trio

from trxds.config.method_config import HedgingPolicy
from trxds.ground.metadata import EMPTY, Metadata
from trxds.ground.status import Status

from .attempt import Attempt
from .retry import may_repeat, pushback

if TYPE_CHECKING:
    from .rpc import Rpc

T = TypeVar("T")

# What is kept of what the caller says, for the attempts to come. With more, one of those there are is chosen.
_KEPT_BYTES = 256 * 1024


class Hedge(Attempt):
    """One attempt of a hedged call; `number` counts from 0. Its time is the call's, and kept by who waits for that."""

    __slots__ = ("_hedges", "number")

    def __init__(self, hedges: Hedges, call: Rpc, number: int) -> None:
        super().__init__(call._state, call.path, call.metadata, None)
        self._resemble(call)
        self._previous = self.number = number
        self._hedges = hedges

    async def run(self) -> None:
        """Until it is chosen, or over; cancelled when another one is chosen."""
        try:
            problem = await self._begin()
            if problem is not None:
                self._end_attempt(problem)
                self._hedges.failed(self, problem, EMPTY)
        except Exception:
            # A channel that closes raises what its calls are to raise, and the call itself does that.
            if not self._state.closed:
                raise
        finally:
            self._hedges.left(self)

    async def _begin(self) -> Status | None:
        while (problem := await self._pick()) is None:
            stream = self.stream
            assert stream is not None
            self._hedges.opened(self)
            await stream.wait_headers()
            if stream.status is None:
                return None  # `_on_headers` has chosen it
            if not self._unseen():
                self._hedges.failed(self, stream.status, stream.trailing_metadata)
                return None
            self.stream = None
        return problem

    def drop(self) -> None:
        """Another one was chosen, or the call is over."""
        if self.stream is not None:
            self.stream.cancel()
        self._end_attempt()

    async def on_stream(self, step: Callable[[], Awaitable[T]]) -> T:
        return await step()

    async def within(self, step: Callable[[], Awaitable[T]]) -> T:
        return await step()

    def _on_headers(self) -> None:
        self._hedges.heard(self)

    async def _backed_off(self, status: Status, trailing: Metadata) -> bool:
        return False  # there are others


class Hedges:
    """All attempts of one call. `decided` is set once one of them is the call's, or `problem` says why none is."""

    def __init__(self, call: Rpc, policy: HedgingPolicy, only: bytes | None) -> None:
        self.decided = trio.Event()
        self.problem: Status | None = None
        self._call = call
        self._policy = policy
        self._throttle = call._state.throttle
        self._alone = only is not None  # the one message of the call leaves with the headers
        self._said: list[bytes] = []
        self._done = False
        self._room = _KEPT_BYTES
        self._running: list[Hedge] = []
        self._chosen: Hedge | None = None
        self._made = 0
        self._next_at = -math.inf  # when the next attempt is due; `inf` if there is to be none
        self._scope = trio.CancelScope()
        self._changed = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<Hedges {self._call.path}: {self._made} made, {len(self._running)} running>"

    async def run(self) -> None:
        """Make attempts as they become due, until it is decided."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                while self._next_at < math.inf:
                    with trio.move_on_at(self._next_at):
                        await self._changed.park()
                    if trio.current_time() >= self._next_at:
                        self._make_one(nursery)

    def _throttled(self) -> bool:
        return self._throttle is not None and not self._throttle.allows

    def stop(self) -> None:
        """The call is over. Plain and idempotent."""
        self._scope.cancel(reason="the hedged call is over")
        running, self._running = self._running, []
        for hedge in running:
            hedge.drop()

    def give_up(self, problem: Status) -> None:
        """The call cannot go on, whatever its attempts may bring."""
        if not self.decided.is_set():
            self.problem = problem
            self.decided.set()
        self.stop()

    def _make_one(self, nursery: trio.Nursery) -> None:
        if self._running and self._throttled():
            self._next_at = math.inf
            return
        hedge = Hedge(self, self._call, self._made)
        self._made += 1
        self._running.append(hedge)
        more = self._made < self._policy.max_attempts
        self._next_at = trio.current_time() + self._policy.delay if more else math.inf
        nursery.start_soon(hedge.run, name=f"hedge/{self._call.path}/{hedge.number}")

    # -- what the caller says

    def say(self, message: bytes) -> None:
        """Say it on every attempt, also on those to come. Plain."""
        self._said.append(message)
        self._room -= len(message)
        for hedge in self._running:
            if hedge.stream is not None and hedge.stream.opened:
                hedge.stream.say([message])

    def done_saying(self) -> None:
        """There is no more to say."""
        self._done = True
        for hedge in self._running:
            if hedge.stream is not None and hedge.stream.opened:
                hedge.stream.end()

    @property
    def full(self) -> bool:
        """Whether there is more than may be kept: it is time to choose."""
        return self._room < 0

    async def choose_any(self) -> None:
        """Choose the oldest attempt that has a stream, once one has."""
        while not self.decided.is_set():
            for hedge in self._running:
                if hedge.stream is not None and hedge.stream.opened:
                    return self._choose(hedge)
            await self._changed.park()

    async def begun(self) -> None:
        """Wait until an attempt has a stream, or none will."""
        while not self.decided.is_set() and not any(hedge.stream is not None for hedge in self._running):
            await self._changed.park()

    # -- what becomes of attempts

    def opened(self, hedge: Hedge) -> None:
        """It has a stream: say what was said."""
        assert hedge.stream is not None
        if not self._alone:
            hedge.stream.say(self._said)
            if self._done:
                hedge.stream.end()
        self._changed.unpark_all()

    def heard(self, hedge: Hedge) -> None:
        """Whoever reads its connection: its headers have come."""
        if not self.decided.is_set():
            self._choose(hedge)
        if hedge is self._chosen:
            self._call._on_headers()

    def failed(self, hedge: Hedge, status: Status, trailing: Metadata) -> None:
        """It ended without headers. It is the call's if the status is fatal, or if it was the last."""
        if hedge not in self._running:
            return  # it was dropped
        named, asked = status.code in self._policy.non_fatal, pushback(trailing)
        if not may_repeat(named, asked, self._throttle):
            self._next_at = math.inf
        elif self._next_at < math.inf:
            self._next_at = trio.current_time() + (asked or 0.0)
        if named and (len(self._running) > 1 or self._next_at < math.inf):
            self._running.remove(hedge)
            hedge.drop()
            self._changed.unpark_all()
        else:
            self._choose(hedge, status)

    def left(self, hedge: Hedge) -> None:
        """Its task is over; one that was cancelled may have opened a stream in its last step."""
        if hedge is not self._chosen:
            hedge.drop()

    def _choose(self, hedge: Hedge, failure: Status | None = None) -> None:
        self._chosen = hedge
        self._running.remove(hedge)
        self._next_at = math.inf
        self.problem = failure if hedge.stream is None else None
        self._call.adopt(hedge)
        self.stop()
        self.decided.set()
        self._changed.unpark_all()
