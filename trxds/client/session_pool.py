"""A `SessionTable` keeps a session for each user: at most so many, and the least recently used one makes room.

A session is in use while a block has it, and calls are made in blocks only; so a session with calls is never taken.
Whoever finds all sessions in use waits. When a block ends, its session goes to the first one that waits at once, in the
same step, so that no newcomer comes before.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import trio
from msgspec import Struct

from trxds.core.arguments import check_number, check_whole
from trxds.core.status import RpcError, Status, StatusCode
from trxds.session_affinity.session import SessionCookies
from trxds.session_affinity.session_token import SessionToken

from .background_services import run_with_services
from .open_session import OpenSession, check_first_within
from .session_registry import SessionRegistry

MAX_USER_SIZE = 1024  # characters or bytes of a user's key: the pool keeps it, and it may come from outside


class PoolOptions(Struct, frozen=True):
    """The options of `Channel.sessions`; `idle` is in seconds, infinite for never."""

    max: int
    idle: float
    can_wait: bool
    wait_for_first: bool
    first_within: float
    required: bool


def checked_pool_options(
    max: int,
    idle: float | None,
    when_full: Literal["wait", "fail"],
    wait_for_first: bool,
    first_within: float,
    required: bool,
) -> PoolOptions:
    """Return the options; `ValueError` names one that cannot be."""
    check_whole("max", max, 1, "a number of sessions from 1")
    if idle is not None:
        check_number("idle", idle, lambda seconds: seconds > 0, "a number of seconds above 0, or None for never")
    if when_full not in ("wait", "fail"):
        raise ValueError(f"when_full is {when_full!r}; it must be 'wait' or 'fail'")
    check_first_within(first_within)
    return PoolOptions(
        max, math.inf if idle is None else idle, when_full == "wait", wait_for_first, first_within, required
    )


@dataclass(slots=True, eq=False, repr=False)
class _PooledSession:
    user: Hashable
    cookies: SessionCookies
    blocks: int = 0  # that have it, or were promised it
    last_used: float = 0.0  # on Trio's clock: the end of its last block


@dataclass(slots=True, eq=False, repr=False)
class _Waiting:
    """The tasks that wait for the session of one user, for which there is no room yet."""

    token: SessionToken | None
    blocks: int = 0
    session: _PooledSession | None = None  # set with `ended`, unless the pool closes
    ended: trio.Event = field(default_factory=trio.Event)


class SessionTable:
    """The sessions of a pool, by user. All but `session` and `run` is synchronous; a user is shown nowhere."""

    def __init__(self, registry: SessionRegistry, options: PoolOptions) -> None:
        self.options = options
        self._registry = registry
        self._lifecycle = registry.lifecycle
        self._is_closed = False
        self._in_use: dict[Hashable, _PooledSession] = {}
        self._unused: dict[Hashable, _PooledSession] = {}  # the least recently used one first
        self._waiting: dict[Hashable, _Waiting] = {}  # in the order of arrival
        self._has_unused = trio.Event()

    @property
    def target(self) -> str:
        """Return the target of the channel."""
        return self._lifecycle.target

    # -- one block

    @asynccontextmanager
    async def session(self, user: Hashable, token: SessionToken | None = None) -> AsyncIterator[OpenSession]:
        """Have the session of a user for a block; `token` is that of a new one, if any."""
        _check_user(user)
        await trio.lowlevel.checkpoint()
        if self._is_closed or self._lifecycle.closed:
            raise self._not_open_error()
        self._lifecycle.check_run()
        pooled = self._take(user, token) or await self._wait(user, token)
        options = self.options
        try:
            with self._registry.block(pooled.cookies, options.first_within, required=options.required) as session:
                yield session
        finally:
            self._give_back(pooled)

    def _take(self, user: Hashable, token: SessionToken | None) -> _PooledSession | None:
        """Take the session of a user, or a new one; return None if there is no room for it."""
        self.sweep()
        pooled = self._in_use.get(user) or self._unused.pop(user, None)
        if pooled is None:
            if not self._make_room():
                return None
            pooled = _PooledSession(user, self._registry.add(self.options.wait_for_first, token))
        self._in_use[user] = pooled
        pooled.blocks += 1
        return pooled

    def _make_room(self) -> bool:
        if len(self) < self.options.max:
            return True
        if not self._unused:
            return False
        self._evict(next(iter(self._unused)))
        return True

    def _evict(self, user: Hashable) -> None:
        self._registry.remove(self._unused.pop(user).cookies)

    def _give_back(self, pooled: _PooledSession) -> None:
        pooled.blocks -= 1
        if pooled.blocks or self._is_closed:
            return
        del self._in_use[pooled.user]
        pooled.last_used = trio.current_time()
        self._unused[pooled.user] = pooled
        self._has_unused.set()
        self._admit()

    # -- when all sessions are in use

    async def _wait(self, user: Hashable, token: SessionToken | None) -> _PooledSession:
        limit = self.options.max
        if not self.options.can_wait:
            remedy = "try again later, or raise max of channel.sessions"
            text = f"all {limit} sessions of the pool of {self.target} are in use; {remedy}"
            raise RpcError(Status(StatusCode.RESOURCE_EXHAUSTED, text))
        waiting = self._waiting.setdefault(user, _Waiting(token))
        waiting.blocks += 1
        try:
            await waiting.ended.wait()
        except BaseException:
            self._stop_waiting(user, waiting)
            raise
        if waiting.session is None or self._is_closed:  # it may close in the step in which the turn comes
            raise self._not_open_error()
        return waiting.session

    def _stop_waiting(self, user: Hashable, waiting: _Waiting) -> None:
        if waiting.session is not None:
            self._give_back(waiting.session)  # it came in the same step as the cancellation
            return
        waiting.blocks -= 1
        if not waiting.blocks:
            self._waiting.pop(user, None)

    def _admit(self) -> None:
        """Give the room that there is to those that wait, in the order of arrival."""
        while self._waiting and self._make_room():
            user = next(iter(self._waiting))
            waiting = self._waiting.pop(user)
            waiting.session = self._take(user, waiting.token)
            assert waiting.session is not None
            # One for each task that waits for this user, so that the session is in use until the last one has left.
            waiting.session.blocks = waiting.blocks
            waiting.ended.set()

    # -- the end of sessions

    async def run(self) -> None:
        """End the sessions that were not used for too long, until cancelled."""
        while True:
            # A loop: a session may be taken again before this task runs.
            while not self._unused:
                # Nothing runs while the pool is empty, or all of it is in use.
                self._has_unused = trio.Event()
                await self._has_unused.wait()
            oldest = next(iter(self._unused.values()))
            await trio.sleep_until(oldest.last_used + self.options.idle)
            self.sweep()

    def sweep(self) -> None:
        """End the sessions that were not used for too long."""
        now = trio.current_time()
        while self._unused:
            user, oldest = next(iter(self._unused.items()))
            if oldest.last_used + self.options.idle > now:
                return
            self._evict(user)

    def close(self) -> None:
        """End all sessions, their calls, and the waiting. Synchronous and idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        for pooled in self._in_use.values():
            for block in tuple(self._registry.open[pooled.cookies]):
                block.end()
        for pooled in (*self._in_use.values(), *self._unused.values()):
            self._registry.remove(pooled.cookies)
        self._in_use.clear()
        self._unused.clear()
        for waiting in self._waiting.values():
            waiting.ended.set()

    def _not_open_error(self) -> Exception:
        if self._lifecycle.closed:
            return self._lifecycle.not_open_error()
        return trio.ClosedResourceError(f"the block of the session pool of {self.target} is over; open another pool")

    def __len__(self) -> int:
        return len(self._in_use) + len(self._unused)

    def __str__(self) -> str:
        waiting = sum(each.blocks for each in tuple(self._waiting.values()))
        in_use = f"{len(self._in_use)} of {self.options.max} sessions in use, {len(self._unused)} not"
        return "closed" if self._is_closed else f"{in_use}, {waiting} waiting"


@asynccontextmanager
async def run_table(table: SessionTable) -> AsyncIterator[SessionTable]:
    """Keep the pool open for a block."""
    services = {"sessions/idle": table.run} if table.options.idle < math.inf else {}
    async with run_with_services(f"the session pool of {table.target}", services, lambda bug: table.close()):
        yield table


def _check_user(user: Hashable) -> None:
    # Not shown: it may be a person's name, or the secret of a browser's session.
    if isinstance(user, str | bytes) and len(user) > MAX_USER_SIZE:
        raise ValueError(
            f"the user's key has {len(user)} characters, and {MAX_USER_SIZE} are the limit; use a hash of it"
        )
    try:
        hash(user)
    except TypeError:
        raise TypeError(f"the user's key is of type {type(user).__name__}, which is not hashable; use a text") from None
