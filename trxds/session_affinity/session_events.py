"""The events of a session say when it gets a host, moves to another, and may have to move soon.

They are made only while somebody reads them, by `Session.events()`, an observer or the log.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from trxds.lb.override_host.repin_reason import RepinReason

from .session_hosts import CookieKey, SessionHost


class SessionPinned(Struct, frozen=True):
    """The session has got a host: its first one, or the same one again after `release()` or its cookie's end.

    `at` is in seconds on Trio's clock; `cookie` names the host.
    """

    at: float
    cookie: CookieKey
    host: SessionHost


class SessionMoved(Struct, frozen=True):
    """The session has moved from host `old` to `new`.

    `change` names the version of the resource that caused the move, such as `EDS resource "cart" version 7`; it is
    empty for moves that no configuration caused.
    """

    at: float
    cookie: CookieKey
    old: SessionHost
    new: SessionHost
    reason: RepinReason
    change: str = ""


class SessionDraining(Struct, frozen=True):
    """The control plane has declared the session's host DRAINING; `change` is the resource's version that says so."""

    at: float
    cookie: CookieKey
    host: SessionHost
    change: str = ""


class SessionHostLost(Struct, frozen=True):
    """The session's host cannot be used now, for `reason`; if nothing changes, the next call goes to another host."""

    at: float
    cookie: CookieKey
    host: SessionHost
    reason: RepinReason
    change: str = ""


class SessionEventsLost(Struct, frozen=True):
    """The reader was too slow: so many events between the last one and the next one were not kept."""

    count: int


SessionEvent: TypeAlias = SessionPinned | SessionMoved | SessionDraining | SessionHostLost | SessionEventsLost
"""An item of `Session.events`."""
