"""The trackers of an attempt are called here; exceptions are logged, because a tracker may be the user's own."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from trxds.core.metadata import Metadata
from trxds.core.status import Status

from .pick import Tracker

_log = logging.getLogger("trxds.lb")


def notify_began(trackers: Iterable[Tracker], path: str) -> None:
    for tracker in trackers:
        try:
            tracker.began()
        except Exception:
            _log.exception("tracker %r raised at the start of the RPC to %s", tracker, path)


def notify_ended(trackers: Iterable[Tracker], path: str, status: Status, trailing: Metadata, now: float) -> None:
    for tracker in trackers:
        try:
            tracker.ended(status, trailing, now)
        except Exception:
            _log.exception("tracker %r raised at the end of the RPC to %s", tracker, path)
