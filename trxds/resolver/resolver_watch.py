"""A custom resolver of a program runs in a task of its channel, from one update to the next.

When it raises, the last good update stays in force and the resolver is started again after a backoff. When it ends, the
last update stays in force, and it is started again when another resolution is due (`resolve_now.py`): after a backoff
where there is no host for new calls. A service config that is refused leaves the one before in force (A21).
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import AsyncIterable, AsyncIterator, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import trio

from trxds.core.backoff import Backoff
from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.error_text import error_text, leaves
from trxds.core.failed_cleanup import log_errors
from trxds.core.status import RpcError
from trxds.resources.endpoint import HealthStatus

from .latest_resolution import LatestResolution
from .resolve_now import ResolveNow
from .resolver_update import Resolver, ResolverArgs, ResolverUpdate
from .target_uri import ResolverTarget

_log = logging.getLogger("trxds.resolver")

Accept: TypeAlias = Callable[[ResolverUpdate], tuple[object | None, str]]
"""Return the value of an update, None if there is none that can be used, and what is wrong with the update."""

# Failures of a network. Others may be bugs of the resolver, and their traceback shows where.
_EXPECTED_ERRORS = (OSError, RpcError)


class ResolverWatch:
    """The run of one custom resolver, until it is cancelled; each new state is put into `queue`."""

    def __init__(
        self,
        target: ResolverTarget,
        resolver: Resolver,
        accept: Accept,
        backoff: Backoff,
        resolve_now: ResolveNow,
        queue: ConflatingQueue[Any],
        sender: Hashable,
    ) -> None:
        self.resolve_now = resolve_now
        self._target = target
        self._resolver = resolver
        self._accept = accept
        self._backoff = backoff
        self._latest = LatestResolution(f"target {target.text}", queue, sender)
        self._scope = trio.CancelScope()
        self._problem = ""

    async def run(self) -> None:
        with self._scope:
            while True:
                self.resolve_now.begin()
                problem = await self._iterate()
                if problem:
                    self._on_failure(f"cannot be resolved: {problem}", None)
                    await trio.sleep(self._backoff.next())
                else:
                    await self.resolve_now.wait()

    async def _iterate(self) -> str:
        """Take the resolver's updates to its end; return why it failed, empty if it did not."""
        args = ResolverArgs(self._target, self.resolve_now.wait)
        count, is_cancelled = 0, False
        try:
            async with _opened(self._resolver(args)) as updates:
                async for update in updates:
                    count += 1
                    self._on_update(update)
                    # An iterator that never waits must not keep the other tasks from running. The first time it is the
                    # iterator's part to raise `Cancelled`: a nursery inside it may be what is cancelled.
                    await trio.lowlevel.cancel_shielded_checkpoint()
                    if is_cancelled:
                        await trio.lowlevel.checkpoint_if_cancelled()
                    is_cancelled = trio.current_effective_deadline() == -math.inf
        except Exception as error:  # whatever a program's resolver raises is a failure of this target only
            text = error_text(error)
            if text != self._problem:
                self._problem = text
                if not all(isinstance(each, _EXPECTED_ERRORS) for each in leaves(error)):
                    _log.warning("%s: its resolver raised", self._target.text, exc_info=error)
            return text
        except BaseExceptionGroup as group:
            text = "%s: its resolver raised while it was cancelled"
            raise log_errors(group, _log, text, self._target.text) from None
        return "" if count else "its resolver ended without an update"

    def _on_update(self, update: ResolverUpdate) -> None:
        if not isinstance(update, ResolverUpdate):
            raise TypeError(f"the resolver yielded {update!r}; yield a trxds.resolvers.ResolverUpdate")
        value, problem = self._accept(update)
        if problem:
            self._on_failure(problem, value)
        else:
            self._problem = ""
            self._latest.succeed(value)
        has_host = any(endpoint.health is not HealthStatus.DRAINING for endpoint in update.checked_endpoints)
        if self._latest.value is None or not has_host:
            # A21: without a service config before, it is a failed resolution, which follows the backoff. A list without
            # a host is one too, as in gRPC's other clients: no host of it can be lost, so nobody would request another.
            self.resolve_now.retry_after(self._backoff.next())
        elif not problem:
            self._backoff.reset()
            self.resolve_now.retry_after(math.inf)

    def _on_failure(self, problem: str, value: object | None) -> None:
        text = f"target {self._target.text} {problem} (failing since"
        self._latest.fail(lambda since: f"{text} {since})", trio.current_time(), value)

    def cancel(self) -> None:
        """End the run, and take an unread message back. A second call changes nothing."""
        if not self._scope.cancel_called:
            self._scope.cancel(reason=f"the channel does not need {self._target.text} at present")
            self._latest.close()

    def __repr__(self) -> str:
        return f"<ResolverWatch {self._target.text}{' left' if self._scope.cancel_called else ''}>"


@asynccontextmanager
async def _opened(updates: Any) -> AsyncIterator[AsyncIterable[ResolverUpdate]]:
    """Open what a resolver returned, and close it in this task, so that the nurseries inside it end here."""
    if isinstance(updates, AbstractAsyncContextManager):
        async with updates as entered:
            yield _checked_iterator(entered)
        return
    iterator = _checked_iterator(updates)
    try:
        yield iterator
    finally:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()


def _checked_iterator(updates: Any) -> AsyncIterable[ResolverUpdate]:
    if isinstance(updates, AsyncIterable):
        return updates
    if inspect.iscoroutine(updates):
        updates.close()
        raise TypeError("the resolver is an `async def` without `yield`; yield a ResolverUpdate for each change")
    raise TypeError(f"the resolver returned {updates!r}, which is no async iterator")
