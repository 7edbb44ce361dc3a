"""This file runs services in the background of a block: they end with it, and a bug in one of them ends it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

import trio

from trxds.core.status import TrxdsInternalError

_log = logging.getLogger("trxds.client")

Services: TypeAlias = Mapping[str, Callable[[], Awaitable[None]]]  # by the names of their tasks


@asynccontextmanager
async def run_with_services(
    what: str, services: Services, close: Callable[[BaseException | None], None] = lambda bug: None
) -> AsyncIterator[None]:
    """Run `services` while the block lasts; `what` names them in errors.

    `close` is called when the block is left, before the services end, or with the bug that ended them.
    The block's own exception leaves it unchanged. Otherwise a bug that ended it is a `TrxdsInternalError`.
    """
    own: BaseException | None = None
    bugs: list[BaseException] = []
    try:
        async with trio.open_nursery() as nursery:
            running = trio.CancelScope(shield=True)

            def end(bug: BaseException) -> None:
                if not running.cancel_called:  # otherwise the block was left before
                    bugs.append(bug)
                close(bug)
                nursery.cancel_scope.cancel(reason="a service crashed")

            nursery.start_soon(_serve, what, services, running, end, name=what)
            try:
                yield
            finally:
                # The block must end before its services, also when it is cancelled: hence the shield.
                close(None)
                running.cancel(reason=f"{what} is closed")
    except BaseExceptionGroup as group:
        # Services never raise, so what is in the group is the block's own exception.
        if len(group.exceptions) != 1:
            raise
        own = group.exceptions[0]
    if own is not None:
        raise own  # out here, where it keeps its cause and context
    if bugs:
        raise TrxdsInternalError(f"a bug in trxds ended {what}; please report it") from bugs[0]


async def _serve(
    what: str, services: Services, running: trio.CancelScope, end: Callable[[BaseException], None]
) -> None:
    """Run the services; an exception of theirs is a bug, which ends the block and reaches its opener as one error."""
    try:
        with running:
            async with trio.open_nursery() as nursery:
                for name, run in services.items():
                    nursery.start_soon(_run, run, end, name=name)
    except* Exception as errors:
        _log.error("a bug in trxds ends %s", what, exc_info=errors)


async def _run(run: Callable[[], Awaitable[None]], end: Callable[[BaseException], None]) -> None:
    try:
        await run()
    except* Exception as errors:
        # Before the other services are cancelled: calls get this error, and not that of a connection that is lost.
        end(errors)
        raise
