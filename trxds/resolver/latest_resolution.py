"""`LatestResolution` has what a task has resolved last, for one name or target, or why it has resolved nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Any

from trxds.core.clock import time_of_day
from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import unavailable

_log = logging.getLogger("trxds.resolver")


class LatestResolution:
    """The state of one name or target, which is put into `queue` each time it changes. The log shows its `name`."""

    def __init__(self, name: str, queue: ConflatingQueue[Any], sender: Hashable) -> None:
        self._name = name
        self._queue = queue
        self._sender = sender
        self._state = ResourceUpdate()
        self._failing_since = ""
        self._is_closed = False

    @property
    def value(self) -> Any:
        """What was resolved last; None before."""
        return self._state.value

    def succeed(self, value: object) -> None:
        """Publish what was resolved."""
        if self._failing_since and not self._is_closed:
            _log.info("%s is resolved again; it had failed since %s", self._name, self._failing_since)
        self._failing_since = ""
        self._publish(ResourceUpdate(value))

    def fail(self, message: Callable[[str], str], now: float, value: object | None = None) -> None:
        """Publish a failure, with `value` or what was resolved before; `message` takes the time of the first one."""
        # The time of a later one would make an equal error look like news.
        self._failing_since = self._failing_since or time_of_day(now)
        status = unavailable(message(self._failing_since))
        value = self.value if value is None else value
        # A37: a failure after a success keeps what was resolved, and is an ambient error.
        self._publish(ResourceUpdate(error=status) if value is None else ResourceUpdate(value, ambient=status))

    def _publish(self, state: ResourceUpdate) -> None:
        if state == self._state or self._is_closed:
            return
        problem = state.error or state.ambient
        if problem is not None:
            _log.warning("%s", problem.message)
        self._state = state
        self._queue.put(self._sender, state)

    def close(self) -> None:
        """Take an unread result back; none follows."""
        self._is_closed = True
        self._queue.discard(self._sender)
