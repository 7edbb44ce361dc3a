"""A host with several addresses is connected by Happy Eyeballs (RFC 8305).

Attempts start a short time apart, and the first to connect is used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import trio

from trxds.core.happy_eyeballs import ATTEMPT_DELAY, interleave_families

Dial: TypeAlias = Callable[[str], Awaitable[trio.SocketStream]]


async def first_connected(addresses: tuple[str, ...], dial: Dial) -> trio.SocketStream:
    """Return the first connected stream; the `OSError` names each address with its reason."""
    connected: list[trio.SocketStream] = []  # two if both connected in the same scheduler step
    failures: dict[str, OSError] = {}

    async def attempt(address: str, failed: trio.Event) -> None:
        try:
            connected.append(await dial(address))
            nursery.cancel_scope.cancel(reason=f"{address} is connected")
        except OSError as error:
            failures[address] = error
            # After a failure the next attempt starts at once, without the rest of the delay.
            failed.set()

    try:
        async with trio.open_nursery() as nursery:
            for address in interleave_families(addresses):
                failed = trio.Event()
                nursery.start_soon(attempt, address, failed, name=f"connect {address}")
                # RFC 8305 §5: the next attempt starts after a delay while this one goes on.
                with trio.move_on_after(ATTEMPT_DELAY):
                    await failed.wait()
        if not connected:
            raise _failure(failures)
        return connected.pop(0)
    finally:
        # Without a checkpoint, because the task may be cancelled.
        for stream in connected:
            stream.socket.close()


def _failure(failures: Mapping[str, OSError]) -> OSError:
    """Return the only failure unchanged; several as one with their addresses, and the first one's errno."""
    first = next(iter(failures.values()))
    if len(failures) == 1:
        return first
    reasons = (f"{address}: {error.strerror or error}" for address, error in failures.items())
    return OSError(first.errno, "; ".join(reasons))
