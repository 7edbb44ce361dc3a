"""A subchannel is one address and its connections: IDLE, CONNECTING, READY or TRANSIENT_FAILURE.

The states are those of connectivity-semantics-and-api.md. The program counter is the state machine: connecting, serving
and backing off is one coroutine, `run`, for each connection, and an IDLE subchannel is no task at all. A connection
that got a GOAWAY, or is retired, stays in its coroutine until its last stream has ended, while the subchannel is IDLE
at once and may begin another.

With a connection the subchannel is READY, whatever becomes of the attempts to make more; without one its state is that
of the attempt (A105). There is one attempt at a time, with one backoff.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import trio
from msgspec import Struct

from trxds.core.backoff import Backoff
from trxds.core.connectivity import Connectivity
from trxds.core.observers import Observers
from trxds.core.status import OK, Status, unavailable

from .client_stream import ClientStream
from .connect import Network, connect_reason
from .connection import Connection
from .connection_age import ConnectionAge, close_after_grace
from .disconnect_reason import SHUTDOWN
from .events import ErrorCode
from .health_watch import HealthCheck, watch_health
from .keepalive import Keepalive
from .options import WireOptions
from .request import Request
from .streaming_calls import listen
from .subchannel_connections import ConnectionStats, WorkingConnections
from .tls import TlsNetwork

MIN_CONNECT_TIME = 20.0  # the least timeout of an attempt (connection-backoff.md)

# Only the latest state reaches a policy. A policy that missed a failure would go on queueing its calls, so a
# failure lasts at least this long even if the backoff ended before the attempt.
MIN_FAILURE_TIME = 0.1

# Seconds from the begin of a connection that no call used to the next. The backoff ends with READY, so a server that
# ends each connection at once would be connected to hundreds of times a second.
MIN_UNUSED_TIME = 1.0

DEFAULT_MAX_CONNECTIONS_CAP = 10  # A105


class SubchannelContext(Struct):
    """The settings that all subchannels of a pool share; `start` runs a subchannel's `run` as a task.

    `changed` is called when a subchannel's state, or the health of a READY one, has changed.
    With a `health_check` each host is asked for its health (A17).
    `max_connections_cap` bounds what clusters and service configs allow (A105); connections older than `age` are
    replaced. `on_stale` is called when the addresses of the hosts should be resolved again, though no policy sees a
    reason.
    """

    options: WireOptions
    keepalive: Keepalive | None
    observers: Observers
    connections: dict[Connection, Subchannel]
    start: Callable[[Subchannel], None]
    changed: Callable[[Subchannel], None]
    health_check: HealthCheck | None
    max_connections_cap: int
    age: ConnectionAge | None
    on_stale: Callable[[], None]


class _Attempt(Struct):
    """The attempt to make a connection: IDLE if there is none, CONNECTING, or TRANSIENT_FAILURE in its backoff."""

    backoff: Backoff
    state: Connectivity = Connectivity.IDLE
    scope: trio.CancelScope | None = None  # made for each attempt and each backoff
    retry_at: float = math.inf  # when the next attempt may begin, if this one fails
    connect_at: float = -math.inf  # no earlier, because the last connection was not used


class Subchannel:
    """The connections to one address, or the attempts to make one. Made by `SubchannelPool.lease`.

    `state` is the connectivity state; `error` says why the last connection or attempt ended. Both are set, and the
    context's `changed` called, before any stream is refused for it. `health` is that of a READY host (A17): OK if it
    takes calls, None until it has said so, and otherwise why not.
    """

    def __init__(
        self,
        address: str,
        network: Network,
        context: SubchannelContext,
        backoff: Backoff,
    ) -> None:
        self.address = address
        self.state = Connectivity.IDLE
        self.error: Status | None = None
        self.created_at = trio.current_time()
        self.changed_at = -math.inf  # the time of the last change of state, on Trio's clock
        self.traffic = ConnectionStats()
        self._network = network
        self._context = context
        self._attempt = _Attempt(backoff)
        self.working = WorkingConnections()
        self.health: Status | None = OK
        self._health_scope: trio.CancelScope | None = None  # of the watch of the connection's health
        self.is_retired = False

    def __repr__(self) -> str:
        streams = f", {self.working}" if self.working.connections else ""
        return f"<Subchannel {self.address} {self.state.value}{streams}>"

    @property
    def secure(self) -> bool:
        """Whether connections have TLS."""
        return isinstance(self._network, TlsNetwork)

    @property
    def security(self) -> str:
        """What TLS verifies the host by, for operators; empty without TLS."""
        return self._network.security if isinstance(self._network, TlsNetwork) else ""

    def request_connection(self) -> None:
        """Connect if IDLE; otherwise do nothing."""
        if self.state is Connectivity.IDLE and not self.is_retired:
            self._begin_attempt()

    def _begin_attempt(self) -> None:
        now = trio.current_time()
        attempt = self._attempt
        attempt.retry_at = now + attempt.backoff.next()
        attempt.scope = trio.CancelScope(deadline=max(attempt.retry_at, now + MIN_CONNECT_TIME))
        self._set_attempt(Connectivity.CONNECTING)
        self._context.start(self)

    def describe_connections(self) -> str:
        """Return in words what a call finds, as `2 of at most 3 connections`; empty for one that has room."""
        return self.working.describe()

    def set_max_connections(self, number: int) -> None:
        """Set how many connections its users allow, of whom the most generous counts (A105). It closes none."""
        self.working.max = min(number, self._context.max_connections_cap)
        self._connect_more()

    def _connect_more(self) -> None:
        if self._attempt.state is Connectivity.IDLE and self.working.wants_another:
            self._begin_attempt()

    def open_stream(self, request: Request) -> ClientStream | None:
        """Begin a call; None unless READY. Never a checkpoint."""
        while connections := self.working.connections:
            stream = connections[0].open_stream(request)
            if stream is not None:
                return stream
            # A connection that turns the call down has just left the working ones, of which there may be more.
            assert connections is not self.working.connections
        return None

    async def listen(self, path: str, request: bytes, on_reply: Callable[[bytes], None]) -> Status | None:
        """Send one request and pass each reply to `on_reply`; return the status of the call, or None unless READY."""
        stream = self.open_stream(Request(path, self.address))
        return await listen(stream, request, on_reply) if stream is not None else None

    def shut_down(self) -> None:
        """Open no more streams, and end when the last one has ended, because no user leases this host any more."""
        self.is_retired = True
        if self._health_scope is not None:
            self._health_scope.cancel(reason=f"{self.address} is no longer wanted")
        for connection in self.working.take_all():
            # Not among those that work any more, so the subchannel posts no more states.
            connection.drain()
            self._context.observers.connection_closed(self.address, self._security_level, SHUTDOWN)
        if self._attempt.scope is not None and self._attempt.state is not Connectivity.IDLE:
            self._attempt.scope.cancel(reason=f"{self.address} is no longer wanted")
        self.state = Connectivity.IDLE

    # -- its life, from one request for a connection to the next

    async def run(self) -> None:
        """Connect, and run the connection to its end; after a failure wait for the end of the backoff."""
        scope, retry_at = self._attempt.scope, self._attempt.retry_at
        assert scope is not None  # `_begin_attempt` made it, and had this task started
        failure = await self._run_attempt(scope)
        if failure is None or self.is_retired:
            return
        self._context.observers.connection_failed(self.address, failure)
        self.error = failure
        scope = self._attempt.scope = trio.CancelScope()
        self._set_attempt(Connectivity.TRANSIENT_FAILURE)
        with scope:
            await trio.sleep_until(max(retry_at, trio.current_time() + MIN_FAILURE_TIME))
            self._set_attempt(Connectivity.IDLE)
            self._connect_more()

    async def _run_attempt(self, scope: trio.CancelScope) -> Status | None:
        """Run one connection; return why there was none, or None. From READY on the scope's deadline does not hold."""
        timeout_text = f"{self.address}: cannot connect: no answer in time"
        with scope:
            if self._attempt.connect_at > trio.current_time():
                await trio.sleep_until(self._attempt.connect_at)
            for is_last in (False, True):
                try:
                    transport = await self._network.connect(self.address)
                except OSError as error:
                    return unavailable(f"{self.address}: cannot connect: {connect_reason(error)}")
                timeout_text = f"{self.address}: connected, but no HTTP/2 SETTINGS came in time"
                never_ready = await self._serve(transport)
                if never_ready is None:
                    return None
                # A server that shuts down gracefully sends GOAWAY with its SETTINGS on a connection that it had just
                # accepted, as the old workers of nginx do at a reload. Its successor listens already.
                if is_last or never_ready.goaway != ErrorCode.NO_ERROR:
                    return never_ready.error
        return unavailable(timeout_text)

    async def _serve(self, transport: trio.abc.Stream) -> Connection | None:
        """Run the connection's reader in this task; return the connection if it has never been READY."""
        context, scope = self._context, self._attempt.scope
        connection = Connection(
            transport, peer=self.address, options=context.options, keepalive=context.keepalive, owner=self
        )
        context.connections[connection] = self
        self.traffic.begin(connection)
        try:
            await connection.run()
        finally:
            context.connections.pop(connection, None)
            self.traffic.end(connection)
        # A connection that was never READY is a failed attempt, so the next one waits for the backoff.
        was_ready = self._attempt.scope is not scope or self._attempt.state is not Connectivity.CONNECTING
        return None if was_ready else connection

    def watch_health(self) -> None:
        """Watch the health of the host on the oldest connection, and no more where it was watched before.

        The health that is known holds until the host has answered there.
        """
        # A17: with the connection the watch ends, also if only older calls go on there.
        if self._health_scope is not None:
            self._health_scope.cancel(reason="the connection takes no more calls, or another service is asked for")
        check, connection = self._context.health_check, self.working.oldest
        if connection is None:
            return
        if check is None:
            self._set_health(OK)  # nobody asks there, so what another connection said must not hold for ever
        else:
            scope = self._health_scope = trio.CancelScope()
            connection.http2.tasks.start(self._run_health_watch, check, connection, scope, name="health")

    async def _run_health_watch(self, check: HealthCheck, connection: Connection, scope: trio.CancelScope) -> None:
        with scope:
            await watch_health(check, self, connection, self._set_health)

    def _set_health(self, health: Status) -> None:
        if health != self.health:
            self.health = health
            self._context.changed(self)

    # -- what its connections tell (`ConnectionOwner`)

    def on_ready(self, connection: Connection) -> None:
        # There is one attempt at a time, so this is its connection.
        attempt = self._attempt
        scope = attempt.scope
        # The time of an attempt may be over before its task reads the SETTINGS, if the process stood still. Such an
        # attempt is cancelled already. Were it to count as ready, another one would begin before it has failed.
        if self.is_retired or scope is None or scope.cancel_called:
            return
        # Only now the attempt has succeeded: a peer without SETTINGS may be anything that accepts connections.
        scope.deadline = math.inf
        attempt.backoff.reset()
        age = self._context.age
        if age is not None:
            connection.http2.tasks.start(self._run_age, age, connection, name="age")
        attempt.state = Connectivity.IDLE
        is_first = not self.working.connections
        replaced = self.working.add(connection)
        self._connect_more()
        if is_first:
            self.health = OK if self._context.health_check is None else None
            if self.health is None:
                self.watch_health()
        self._update_state()
        self._context.observers.connection_opened(self.address, self._security_level)
        for old in replaced:
            old.drain()
            assert age is not None  # only its task has a connection replaced
            old.http2.tasks.start(close_after_grace, age, old, name="grace")

    def on_full(self, connection: Connection) -> None:
        self.working.serve_queue(connection)
        self._connect_more()

    def on_draining(self, connection: Connection) -> None:
        # It was never READY, or nobody wants the host any more.
        if connection not in self.working.connections:
            return
        if isinstance(self._network, TlsNetwork):
            # Not earlier: a server sends what is to be resumed after the handshake.
            self._network.keep_session(self.address, connection.http2.reader.transport.stream)
        self.error = connection.error
        # Calls that had waited for it would have used it, so none of them waits for the next one either.
        if connection.streams.calls.started <= connection.http2.counts.own_streams:
            self._attempt.connect_at = connection.since + MIN_UNUSED_TIME
        was_oldest = connection is self.working.oldest
        self.working.remove(connection)
        if was_oldest:
            # The health that is known holds until another connection has been asked.
            self.watch_health()
        self._update_state()
        self._context.observers.connection_closed(self.address, self._security_level, connection.http2.disconnect)
        if self.working.connections:
            self._connect_more()  # no other connection has room, or the calls that wait would be there already
        elif self.state is Connectivity.CONNECTING:
            self._context.on_stale()  # A105: no policy sees that it was lost, and it would have resolved again

    async def _run_age(self, age: ConnectionAge, connection: Connection) -> None:
        """Have the connection replaced at its age."""
        await trio.sleep(age.draw())
        if connection in self.working.connections:
            self._context.on_stale()
            self.working.aged += (connection,)
            self._connect_more()

    @property
    def _security_level(self) -> str:
        return "privacy_and_integrity" if self.secure else "none"

    def _set_attempt(self, state: Connectivity) -> None:
        self._attempt.state = state
        self._update_state()

    def _update_state(self) -> None:
        # A105: READY with a connection; otherwise the attempt decides.
        state = Connectivity.READY if self.working.connections else self._attempt.state
        if state is not self.state:
            self.state = state
            self.changed_at = trio.current_time()
            self._context.changed(self)
