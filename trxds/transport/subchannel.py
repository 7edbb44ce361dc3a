"""A subchannel is one address and its connection: IDLE, CONNECTING, READY or TRANSIENT_FAILURE.

The states are those of connectivity-semantics-and-api.md. The program counter is the state machine: connecting, being
READY and backing off is one coroutine, `run`, and an IDLE subchannel is no task at all. A connection that got a
GOAWAY, or is retired, stays in its coroutine until its last stream has ended, while the subchannel is IDLE at once and
may begin another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import trio

from trxds.core.backoff import Backoff
from trxds.core.connectivity import Connectivity
from trxds.core.observers import Observers
from trxds.core.status import OK, Status, unavailable

from .client_stream import ClientStream
from .connect import Network, connect_error
from .connection import Connection
from .connection_stats import ConnectionStats
from .disconnect_reason import SHUTDOWN
from .health_watch import HealthCheck, watch_health
from .keepalive import Keepalive
from .options import WireOptions
from .request import Request
from .tls import TlsNetwork

MIN_CONNECT_TIME = 20.0  # the least timeout of an attempt (connection-backoff.md)

# Only the latest state reaches a policy. A policy that missed a failure would go on queueing its calls, so a
# failure lasts at least this long even if the backoff ended before the attempt.
MIN_FAILURE_TIME = 0.1


@dataclass(slots=True)
class SubchannelContext:
    """The settings that all subchannels of a pool share; `start` runs a subchannel's `run` as a task.

    With a `health_check` each connection is asked for the health of its host (A17); another one is for connections that
    begin later.
    """

    options: WireOptions
    keepalive: Keepalive | None
    observers: Observers
    connections: dict[Connection, None]
    start: Callable[[Subchannel], None]
    health_check: HealthCheck | None = None


class Subchannel:
    """The connection to one address, or the attempts to make one. Made by `SubchannelPool.lease`.

    `state` is the connectivity state; `error` says why the last connection or attempt ended. Both are set, and
    `changed` called, before any stream is refused for it. `health` is that of a READY host (A17): OK if it takes calls,
    None until it has said so, and otherwise why not. `changed` is called for it too.
    """

    def __init__(
        self,
        address: str,
        network: Network,
        context: SubchannelContext,
        backoff: Backoff,
        changed: Callable[[Subchannel], None],
    ) -> None:
        self.address = address
        self.state = Connectivity.IDLE
        self.error: Status | None = None
        self.created_at = trio.current_time()
        self.changed_at = -math.inf  # the time of the last change of state, on Trio's clock
        self.traffic = ConnectionStats()
        self._network = network
        self._context = context
        self._backoff = backoff
        self._changed = changed
        self._connection: Connection | None = None  # while READY
        self._scope = trio.CancelScope()  # of the attempt, and of the backoff after it
        self.health: Status | None = OK
        self._health_scope = trio.CancelScope()  # of the watch of the connection's health
        self.is_retired = False

    def __repr__(self) -> str:
        streams = f", {self._connection.stream_count} streams" if self._connection is not None else ""
        return f"<Subchannel {self.address} {self.state.value}{streams}>"

    @property
    def secure(self) -> bool:
        """Whether connections have TLS."""
        return isinstance(self._network, TlsNetwork)

    def request_connection(self) -> None:
        """Connect if IDLE; otherwise do nothing."""
        if self.state is Connectivity.IDLE and not self.is_retired:
            self._scope = trio.CancelScope()
            self._set_state(Connectivity.CONNECTING)
            self._context.start(self)

    def open_stream(self, request: Request) -> ClientStream | None:
        """Begin a call; None unless READY. Never a checkpoint."""
        return self._connection.open_stream(request) if self._connection is not None else None

    async def listen(self, path: str, request: bytes, on_reply: Callable[[bytes], None]) -> Status | None:
        """Send one request and pass each reply to `on_reply`; return the status of the call, or None unless READY."""
        stream = self.open_stream(Request(path, self.address))
        if stream is None:
            return None
        try:
            await stream.send(request, end=True)
            while (reply := await stream.receive()) is not None:
                on_reply(reply)
            return stream.status
        finally:
            stream.cancel()

    def shut_down(self) -> None:
        """Open no more streams, and end when the last one has ended, because no user leases this host any more."""
        self.is_retired = True
        connection, self._connection = self._connection, None
        if connection is not None:
            # Retired by its users, the subchannel posts no more states.
            connection.on_draining = None
            self._health_scope.cancel(reason=f"{self.address} is no longer wanted")
            connection.drain()
            self._context.observers.connection_closed(self.address, self._security, SHUTDOWN)
        elif self.state is not Connectivity.IDLE:  # when IDLE, the last connection may still have streams
            self._scope.cancel(reason=f"{self.address} is no longer wanted")
        self.state = Connectivity.IDLE

    # -- its life, from one request for a connection to the next

    async def run(self) -> None:
        """Connect, and run the connection to its end; after a failure wait for the end of the backoff."""
        now = trio.current_time()
        retry_at = now + self._backoff.next()
        failure = await self._run_attempt(self._scope, max(retry_at, now + MIN_CONNECT_TIME))
        if failure is None or self.is_retired:
            return
        self._context.observers.connection_failed(self.address, failure)
        self.error, self._scope = failure, trio.CancelScope()
        self._set_state(Connectivity.TRANSIENT_FAILURE)
        with self._scope:
            await trio.sleep_until(max(retry_at, trio.current_time() + MIN_FAILURE_TIME))
            self._set_state(Connectivity.IDLE)

    async def _run_attempt(self, scope: trio.CancelScope, deadline: float) -> Status | None:
        """Run one connection; return why there was none, or None. From READY on the `deadline` does not hold."""
        scope.deadline = deadline
        timeout_text = f"{self.address}: cannot connect: no answer in time"
        with scope:
            transport = await self._connect()
            if isinstance(transport, Status):
                return transport
            timeout_text = f"{self.address}: connected, but no HTTP/2 SETTINGS came in time"
            return await self._serve(transport, scope)
        return unavailable(timeout_text)

    async def _connect(self) -> trio.abc.Stream | Status:
        try:
            return await self._network.connect(self.address)
        except OSError as error:
            return unavailable(f"{self.address}: cannot connect: {connect_error(error)}")

    async def _serve(self, transport: trio.abc.Stream, scope: trio.CancelScope) -> Status | None:
        """Run the connection's reader in this task."""
        context = self._context
        connection = Connection(transport, peer=self.address, options=context.options, keepalive=context.keepalive)
        context.connections[connection] = None
        self.traffic.begin(connection)
        try:
            await self._run_connection(connection, scope)
        finally:
            context.connections.pop(connection, None)
            self.traffic.end(connection)
        # A connection that was never READY is a failed attempt, so the next one waits for the backoff: also if
        # SETTINGS came together with a GOAWAY.
        return None if connection.on_draining is not None else connection.error

    async def _run_connection(self, connection: Connection, scope: trio.CancelScope) -> None:
        check = self._context.health_check
        if check is None:
            connection.on_ready = partial(self._become_ready, connection, scope)
            await connection.run()
            return
        async with trio.open_nursery() as nursery:
            watch = partial(nursery.start_soon, self._watch_health, check, connection)
            connection.on_ready = partial(self._become_ready, connection, scope, watch)
            await connection.run()
            nursery.cancel_scope.cancel(reason="the connection has ended")

    async def _watch_health(self, check: HealthCheck, connection: Connection) -> None:
        # A17: with the connection the watch ends, also if only older calls go on there.
        with self._health_scope:
            await watch_health(check, self, connection, self._set_health)

    def _set_health(self, health: Status) -> None:
        if health != self.health and not self.is_retired:
            self.health = health
            self._changed(self)

    def _become_ready(
        self, connection: Connection, scope: trio.CancelScope, start_watch: Callable[[], None] | None = None
    ) -> None:
        if self.is_retired:
            return
        # Only now the attempt has succeeded: a peer without SETTINGS may be anything that accepts connections.
        scope.deadline = math.inf
        self._backoff.reset()
        self._connection = connection
        connection.on_draining = partial(self._on_draining, connection)
        if start_watch is not None:
            self.health, self._health_scope = None, trio.CancelScope()
            start_watch()
        self._set_state(Connectivity.READY)
        self._context.observers.connection_opened(self.address, self._security)

    def _on_draining(self, connection: Connection) -> None:
        self._connection = None
        self._health_scope.cancel(reason="the connection takes no more calls")
        self.error = connection.error
        self._set_state(Connectivity.IDLE)
        self._context.observers.connection_closed(self.address, self._security, connection.http2.disconnect)

    @property
    def _security(self) -> str:
        return "privacy_and_integrity" if self.secure else "none"

    def _set_state(self, state: Connectivity) -> None:
        self.state = state
        self.changed_at = trio.current_time()
        self._changed(self)
