"""PINGs detect a dead peer on a quiet connection (A8).

A peer that vanished silently (a host that lost power, a NAT that forgot) cannot be told from a quiet one without a
PING. But a server takes frequent PINGs for abuse: it sends GOAWAY with "too_many_pings", and from then on we send half
as many.

No work is done per frame: the reader notes when it last read, and keepalive looks at that when a time is over.
"""

from __future__ import annotations

import logging
import math
import socket
from collections.abc import Sized
from contextlib import suppress

import trio

from trxds.core.arguments import check_number
from trxds.core.status import unavailable

from .disconnect_reason import TIMED_OUT
from .events import ErrorCode, GoAwayReceived
from .http2_connection import Http2Connection
from .transport import socket_below

MIN_KEEPALIVE_TIME = 10.0
"""The least seconds between PINGs (A8)."""

DEFAULT_KEEPALIVE_TIMEOUT = 20.0
"""The default seconds to wait for an answer (A8)."""

_MAX_KEEPALIVE_TIME = 24 * 3600.0  # seconds from which on a server's complaint changes nothing

_USER_TIMEOUT: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux has it
_MAX_USER_TIMEOUT = 2**31 - 1  # milliseconds, as it is a C int

_log = logging.getLogger("trxds.transport")


class Keepalive:
    """The keepalive of one channel's connections. They share it, because one server's complaint holds for all.

    After `time` seconds without a byte the peer is sent a PING; if nothing at all comes within `timeout` seconds, the
    connection is closed. Without calls no PING is sent, unless `without_calls`.
    """

    def __init__(self, time: float, timeout: float = DEFAULT_KEEPALIVE_TIMEOUT, *, without_calls: bool = False) -> None:
        # A8 lets a client raise a shorter time silently; then a caller who relies on it never learns of it.
        least = f"a number of seconds from {MIN_KEEPALIVE_TIME:g}, or None for no PINGs"
        abuse = "servers take more PINGs for abuse (A8)"
        check_number("keepalive_time", time, lambda time: time >= MIN_KEEPALIVE_TIME, f"{least}: {abuse}")
        finite = "a finite number of seconds above 0"
        check_number("keepalive_timeout", timeout, lambda timeout: 0 < timeout < math.inf, finite)
        self.time = time
        self.timeout = timeout
        self._without_calls = without_calls

    async def watch(self, http2: Http2Connection, calls: Sized) -> None:
        """Send a PING whenever the connection is quiet; return when it was closed because nothing came."""
        last_activity = trio.current_time()
        while True:
            await trio.sleep_until(last_activity + self.time)
            if http2.reader.last_read > last_activity:
                last_activity = http2.reader.last_read
            elif not self._without_calls and not calls:
                last_activity = trio.current_time()  # a call that begins later is watched from then on
            elif not await self._ping_is_answered(http2):
                text = f"{http2.peer}: no answer to a PING within {self.timeout:g} s (keepalive)"
                return http2.close(unavailable(text), disconnect=TIMED_OUT)

    async def _ping_is_answered(self, http2: Http2Connection) -> bool:
        sent_at = trio.current_time()
        http2.ping()
        await trio.sleep(min(self.time, self.timeout))  # a time-out above `time` must not delay the next PING
        if http2.reader.last_read < sent_at:
            await trio.sleep_until(sent_at + self.timeout)
        return http2.reader.last_read >= sent_at

    def on_too_many_pings(self, event: GoAwayReceived, peer: str) -> bool:
        """Halve the rate of PINGs if this GOAWAY complains of them; return whether it does."""
        if event.code != ErrorCode.ENHANCE_YOUR_CALM or event.debug != b"too_many_pings":
            return False
        # Otherwise a server that complains on each new connection would end the PINGs to all hosts, and fill the log.
        if self.time >= _MAX_KEEPALIVE_TIME:
            return True
        self.time *= 2
        text = "%s says too_many_pings: keepalive asks after %g s from now on; raise keepalive_time"
        _log.warning(text, peer, self.time)
        return True


def make_keepalive(time: float | None, timeout: float, without_calls: bool) -> Keepalive | None:
    """Return the keepalive for a channel's options; None without a `time`. `ValueError` if one of them is wrong."""
    # Without a `time` the others are checked too, or a mistake in them would show only when somebody sets it.
    keepalive = Keepalive(MIN_KEEPALIVE_TIME if time is None else time, timeout, without_calls=without_calls)
    if time is not None:
        return keepalive
    if without_calls:
        raise ValueError("keepalive_without_calls has no meaning without keepalive_time; set both")
    return None


def set_user_timeout(stream: trio.abc.Stream, seconds: float) -> None:
    """Have the kernel end a connection whose bytes the peer does not acknowledge in that time: TCP_USER_TIMEOUT (A18).

    It does nothing for streams that are not TCP sockets.
    """
    below = socket_below(stream)
    if _USER_TIMEOUT is None or below is None:
        return
    if below.socket.family in (socket.AF_INET, socket.AF_INET6):
        # A kernel that refuses it, as a sandbox's may, has its own, longer time.
        with suppress(OSError):
            # 0 would stand for the kernel's own time.
            milliseconds = min(max(round(seconds * 1000), 1), _MAX_USER_TIMEOUT)
            below.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, milliseconds)
