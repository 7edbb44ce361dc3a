"""Connections that have sent no request yet are limited in time and number, as each costs the server.

A client that connects and sends nothing costs a file descriptor and some kilobytes. So there is a time limit until its
preface has come, and a bound on how many may be in that state. Beyond the bound the oldest one is closed: if the newest
were, connections that are held open on purpose would keep everybody else out. Connections whose preface has come have a
bound of their own, for the same reason. They have no time limit, because a gRPC client may connect long before its
first call. Where clients need a token, requests without one end neither state.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio
from msgspec import Struct

from trxds.core.metadata import Headers

from .server_connection import ServerConnection
from .server_limits import ServerLimits

_log = logging.getLogger("trxds.server")


class PendingConnection(Struct, eq=False):
    """One connection until its first request that is admitted. Its time limit is the deadline of `scope`."""

    _pending: PendingConnections
    peer: str
    scope: trio.CancelScope
    _admits: Callable[[Headers], bool]
    connection: ServerConnection | None = None  # None until the TLS handshake has ended

    def on_handshake(self) -> None:
        """Start the time limit for the preface, because the TLS handshake has ended."""
        self.scope.deadline = trio.current_time() + self._pending.limits.preface_timeout

    def on_preface(self) -> None:
        """End the time limit, because the preface has come. Idempotent."""
        self.scope.deadline = math.inf
        self._pending.on_preface(self)

    def on_request(self, headers: Headers) -> bool:
        """Stop counting this connection if the request is admitted; return whether it is."""
        if not self._admits(headers):
            return False
        self._pending.leave(self)
        return True

    def close(self, why: str) -> None:
        """Close this connection to make room for others; a gRPC client connects again when it has a call."""
        _log.info("%s: the connection ends, %s", self.peer, why)
        # The streams of a pending connection are requests without the token; their client might never read the answers.
        if self.connection is not None and self.scope.deadline == math.inf and not self.connection.streams:
            # A client that has sent its preface understands GOAWAY, and retries elsewhere without an error.
            self.connection.goaway(debug=why.encode())
        else:
            self.scope.cancel()


class PendingConnections:
    """All pending connections of a server, in order of age."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self._silent: OrderedDict[PendingConnection, None] = OrderedDict()
        self._idle: OrderedDict[PendingConnection, None] = OrderedDict()  # those whose preface has come

    @contextmanager
    def admit(self, peer: str, admits: Callable[[Headers], bool], *, tls: bool) -> Iterator[PendingConnection]:
        """Count a new connection as pending, for the block or until `admits` returns true for a request's headers."""
        limits = self.limits
        timeout = limits.handshake_timeout if tls else limits.preface_timeout
        with trio.CancelScope(deadline=trio.current_time() + timeout) as scope:
            pending = PendingConnection(self, peer, scope, admits)
            try:
                self._join(self._silent, pending, "as too many others have not sent their preface")
                yield pending
            finally:
                self.leave(pending)
        # `close` and the server's end cancel the scope, too; only its deadline is logged here.
        if scope.cancelled_caught and trio.current_time() >= scope.deadline:
            _log.info("%s: the connection ends, as its preface or TLS handshake took too long", peer)

    def drop_handshakes(self) -> None:
        """End the connections whose TLS handshake has not ended: the server does not list them yet."""
        for pending in tuple(self._silent):
            if pending.connection is None:
                pending.scope.cancel()

    def on_preface(self, pending: PendingConnection) -> None:
        """Move a connection to those whose preface has come."""
        if pending in self._silent:
            del self._silent[pending]
            self._join(self._idle, pending, "as too many others have sent no request")

    def _join(self, waiting: OrderedDict[PendingConnection, None], connection: PendingConnection, why: str) -> None:
        waiting[connection] = None
        if len(waiting) > self.limits.max_pending_connections:
            waiting.popitem(last=False)[0].close(why)

    def leave(self, connection: PendingConnection) -> None:
        """Stop counting a connection, which has sent an admitted request or is gone. Idempotent."""
        self._silent.pop(connection, None)
        self._idle.pop(connection, None)
