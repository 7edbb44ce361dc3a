"""DNS names of targets and of LOGICAL_DNS clusters, each watched like a resource and resolved by one task (A37).

A name is resolved again when a policy requests it, or on a schedule (`resolve_now.py`). After a failure it is resolved
again after a backoff, and until then the known addresses stay in use.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Hashable
from random import Random
from typing import Any, TypeAlias

import trio

from trxds.core.backoff import Backoff
from trxds.core.conflating_queue import ConflatingQueue

from .latest_resolution import LatestResolution
from .resolve_now import ResolveNow

Resolve: TypeAlias = Callable[[str, int], Awaitable[tuple[str, ...]]]


class DnsResolver:
    """The DNS names that one channel needs, each as "host:port", resolved again each `refresh` seconds."""

    def __init__(self, nursery: trio.Nursery, look_up: Resolve, random: Random, refresh: float = math.inf) -> None:
        self._nursery = nursery
        self._look_up = look_up
        self._random = random
        self._refresh = refresh
        self._watched: dict[str, DnsWatch] = {}

    def watch(self, name: str, queue: ConflatingQueue[Any], sender: Hashable) -> DnsWatch:
        """Put each new state of the name into `queue`; its value is a tuple of addresses."""
        watch = DnsWatch(name, queue, sender, lambda: self._watched.pop(name), ResolveNow(self._refresh))
        self._watched[name] = watch
        self._nursery.start_soon(watch.run, self._look_up, Backoff(self._random), name=f"dns/{name}")
        return watch

    def re_resolve(self, name: str) -> None:
        """Resolve the name again soon, if it is watched: its addresses seem to be out of date."""
        if name in self._watched:
            self._watched[name].resolve_now.request()

    def re_resolve_all(self) -> None:
        """Resolve all names again soon."""
        for watch in self._watched.values():
            watch.resolve_now.request()


class DnsWatch:
    """The watch of one name, until it is cancelled."""

    def __init__(
        self,
        name: str,
        queue: ConflatingQueue[Any],
        sender: Hashable,
        on_cancel: Callable[[], object],
        resolve_now: ResolveNow,
    ) -> None:
        self.resolve_now = resolve_now
        self._name = name
        self._latest = LatestResolution(f'DNS name "{name}"', queue, sender)
        self._on_cancel = on_cancel
        self._scope = trio.CancelScope()

    async def run(self, look_up: Resolve, backoff: Backoff) -> None:
        host, _, port = self._name.rpartition(":")
        with self._scope:
            while True:
                self.resolve_now.begin()
                try:
                    # getaddrinfo takes an IPv6 address without its brackets.
                    addresses = await look_up(host.strip("[]"), int(port))
                except OSError as error:
                    self._on_failure(error)
                    # Without regard to requests: a name server in trouble gets no more than one query for each backoff.
                    await trio.sleep(backoff.next())
                    continue
                self._latest.succeed(addresses)
                if addresses:
                    backoff.reset()
                else:  # nobody requests another look-up: there is no address that could fail
                    self.resolve_now.retry_after(backoff.next())
                await self.resolve_now.wait()

    def _on_failure(self, error: OSError) -> None:
        reason = error.strerror or error
        text = f'DNS name "{self._name}" cannot be resolved since'
        self._latest.fail(lambda since: f"{text} {since}: {reason}", trio.current_time())

    def cancel(self) -> None:
        """End the watch, and take an unread message back. A second call changes nothing."""
        if not self._scope.cancel_called:
            self._scope.cancel(reason=f"no cluster needs {self._name} any more")
            # At once: the task runs on to its next checkpoint, and might publish until then.
            self._latest.close()
            self._on_cancel()

    def __repr__(self) -> str:
        return f"<DnsWatch {self._name}{' left' if self._scope.cancel_called else ''}>"
