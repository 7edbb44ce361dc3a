"""What a channel logs of its connections and of its ADS streams: one line at INFO for each that is opened or lost.

Each kind of line has a limit of its own, so a thousand hosts that connect do not hide the one that is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from trxds.core.limited_log import LimitedLog
from trxds.core.observe import Observer, OutlierEvent
from trxds.core.status import Status
from trxds.transport.disconnect_reason import SHUTDOWN, UNKNOWN

_transport = logging.getLogger("trxds.transport")
_xds = logging.getLogger("trxds.xds")
_lb = logging.getLogger("trxds.lb")

_MAX_FAILING = 1000  # hosts of which the last failure is kept


class ChannelLog(Observer):
    """The log of one channel, or of the xDS client that several share; `name` is how its lines begin."""

    __slots__ = ("_ejections", "_failing", "_failures", "_losses", "_name", "_now", "_opened", "_streams")

    def __init__(self, name: str, now: Callable[[], float]) -> None:
        self._name = name
        self._now = now
        self._opened = LimitedLog(_transport)
        self._losses = LimitedLog(_transport)
        self._failures = LimitedLog(_transport)
        self._streams, self._ejections = LimitedLog(_xds), LimitedLog(_lb)
        self._failing: dict[str, str] = {}  # the last failure of hosts that cannot be reached

    def connection_opened(self, address: str, security: str) -> None:
        self._failing.pop(address, None)
        encrypted = "" if security == "none" else " with TLS"
        self._opened.info(self._now(), "%s: connected to %s%s", self._name, address, encrypted)

    def connection_closed(self, address: str, security: str, why: str) -> None:
        if why == SHUTDOWN:
            _transport.debug("%s: closed the connection to %s, which is not needed any more", self._name, address)
        else:
            reason = "the host closed it" if why == UNKNOWN else why
            self._losses.info(self._now(), "%s: lost the connection to %s (%s)", self._name, address, reason)

    def connection_failed(self, address: str, status: Status) -> None:
        if self._failing.get(address) == status.message:
            # A host that stays away is tried again every two minutes at least; one line for all of that is enough.
            _transport.debug("%s: %s (again)", self._name, status.message)
            return
        self._failing[address] = status.message
        if len(self._failing) > _MAX_FAILING:
            del self._failing[next(iter(self._failing))]
        self._failures.info(self._now(), "%s: %s", self._name, status.message)

    def xds_connected(self, server: str) -> None:
        self._streams.info(self._now(), "%s: the ADS stream to xDS server %s has begun", self._name, server)

    def outlier(self, outlier: OutlierEvent) -> None:
        addresses = ", ".join(outlier.addresses)
        if outlier.unenforced:
            text = "%s: %s of cluster %s is an outlier by %s, and is not ejected: %s"
            _lb.debug(text, self._name, addresses, outlier.backend, outlier.method, outlier.unenforced)
        else:
            text = "%s: ejected %s of cluster %s, an outlier by %s"
            self._ejections.info(self._now(), text, self._name, addresses, outlier.backend, outlier.method)
