"""An `Rpc` is one RPC over all its attempts (A6), from the caller's metadata to the release of its resources.

    route (`call_routing.py`) -> attempt (`attempt.py`) -> another attempt, if that failed and may be repeated

An RPC costs no task and no nursery. It runs in its caller's task, and parks once on its stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar, TypeVar

import trio
from msgspec import structs

from trxds.core.metadata import EMPTY, Metadata
from trxds.core.observe import CallStarted
from trxds.core.status import RpcError, Status, StatusCode
from trxds.resolver.method_config import NO_METHOD_CONFIG, HedgingPolicy
from trxds.session_affinity.first_call import FirstCall
from trxds.session_affinity.session import SessionView

from .attempt import Attempt
from .attempt_timeout import AttemptTimeout
from .call_attempts import CallAttempts
from .call_routing import NO_ROUTE, find_route
from .call_scope import CallScope
from .call_settings import CallSettings
from .call_telemetry import CallTelemetry
from .channel_state import ChannelState
from .hedging import HedgingState
from .lifecycle import current_run
from .open_session import OpenSession
from .replay_buffer import ReplayBuffer
from .retry import RetryState, record_end

T = TypeVar("T")


class Rpc:
    """An `Rpc` is one RPC over all its attempts. `close` must be called, whatever happens; it is synchronous."""

    is_pinned: ClassVar[bool] = False  # to one host
    __slots__ = (
        "_attempts",
        "_channel",
        "_first",
        "_metadata",
        "_request",
        "_seen",
        "_session",
        "attempt",
        "hedging",
        "route",
        "scope",
        "settings",
        "telemetry",
    )

    def __init__(
        self,
        channel: ChannelState,
        path: str,
        metadata: Metadata,
        settings: CallSettings,
        timeout: float | None,
        session: OpenSession | None,
    ) -> None:
        if current_run() != channel.lifecycle.run:
            channel.lifecycle.check_open()  # raises
        now = channel.now()
        self.scope = CallScope(session or channel.lifecycle, path, now, timeout, channel.first_wait, self.error)
        self.attempt: Attempt | None = None  # with hedging, the chosen one
        self.hedging: HedgingState | None = None
        self._channel = channel
        self._metadata = metadata
        self.settings = settings
        self._request: bytes | ReplayBuffer
        self.route = NO_ROUTE
        self._attempts: CallAttempts | None = None
        self.telemetry: CallTelemetry | None = None  # None without an observer
        # This follows everything that may raise: a call that was registered must be closed.
        self._session = session
        self._first: FirstCall | None = None  # if this is the session's first call
        self._seen: SessionView | None = None  # the session when the call was sent
        if session is not None:
            session.begin_call(self)
        # A14: a call is counted once, however many attempts it makes.
        calls = channel.calls
        calls.open[self] = None
        calls.started += 1
        calls.last_started = now

    def attach_telemetry(self, registered: bool) -> None:
        """Report this call to the channel's observers, from here to its end. Synchronous."""
        session = self._session.cookies if self._session is not None else None
        call = CallStarted(self.scope.path, registered, session.number if session is not None else None, self._metadata)
        observers = self._channel.observers.call(call)
        if observers is not None:
            self.telemetry = CallTelemetry(observers, session, self.scope)

    # -- one unary call

    async def unary(self, request: bytes, deserialize: Callable[[bytes], T]) -> T:
        """Send one message and get one back. Raises `RpcError`; always a checkpoint."""
        problem = await self.open(request)
        while problem is None:
            attempt = self.attempt
            assert attempt is not None and attempt.stream is not None
            receive = attempt.stream.receive_unary
            # A call without such a timeout pays for this test, and not for one more coroutine.
            if attempt.timeout is None:
                reply = await self.scope.wait_on_stream(receive)
            else:
                reply = await attempt.wait_response(receive, self.scope)
            if reply is not None:
                return self.parse(reply, deserialize, is_last=True)
            if not await self.attempts.replace(attempt):
                problem = self.final_status()
        raise await self.failure(problem)

    # -- from metadata to a stream

    async def open(self, request: bytes | ReplayBuffer) -> Status | None:
        """Open a stream, or return the status with which the call failed.

        A single message is sent with the headers; the messages of a buffer are replayed on each attempt.
        """
        scope = self.scope
        channel = self._channel
        # If the channel is ready, nothing need wait before the headers are sent, so no cancel scope would notice this.
        if scope.deadline <= scope.started:
            await trio.lowlevel.checkpoint()  # as in `failure`: a caller that tries again at once must starve nobody
            raise scope.deadline_error()
        if self._session is not None:
            self._first = await self._session.take_turn(scope)
            # After the wait, in which the first call may bring a host, and in one step with the cookies that are sent:
            # the response counts only against the view that this call had.
            cookies = self._session.cookies
            self._seen = cookies.view
            self._metadata = cookies.metadata.fill(self._metadata, scope.path)
        if channel.data_plane.current is None:
            await scope.run_with_deadline(partial(channel.data_plane.wait_for_change, None))
            if self.telemetry is not None:
                self.telemetry.record_configuration()
        route = await find_route(channel, scope, self._metadata, self.settings.wait_for_ready)
        if isinstance(route, Status):
            return route
        # A31: the cluster is chosen once for a call, and every attempt stays in it.
        self.route = route
        config = route.config
        if self._session is not None:
            # After the filters: the override, which the session filter sets, shows whether the call is sticky (A55).
            problem = self._session.check_sticky(route.args)
            if problem is not None:
                return problem
        if config is not NO_METHOD_CONFIG:
            self.settings = self.settings.limited_by(config)
        if self.telemetry is not None and not self.is_pinned:
            self.telemetry.record_route(route.args.cluster, config.hedging is not None)
        settings = self.settings
        # Once for all attempts, so that filters see a message once. The messages of a stream come from `Call.send`.
        if isinstance(request, bytes) and (route.filters or settings.encoding or len(request) > settings.max_send_size):
            outgoing = route.outgoing(request, settings)
            if isinstance(outgoing, Status):
                return outgoing
            request = outgoing
        self._request = request
        # Several attempts at a time at one host would only load it.
        if config.hedging is not None and not self.is_pinned:
            return await self._hedge(config.hedging)
        self.attempt = attempt = self.new_attempt()
        failed = await attempt.start(scope, self.on_headers)
        problem = None if failed is None else await self.attempts.recover(failed)
        # Only a call that has found a host is copied, as in Envoy, and its later attempts are not.
        if problem is None and config.mirrors is not None and not self.is_pinned:
            session_headers = self._session.cookies.metadata.header_names if self._session is not None else ()
            config.mirrors.copy_call(route.args, request, settings, scope, session_headers)
        return problem

    # -- attempts, one after another

    def new_attempt(self, number: int = 0, refusals: int = 0, transparent: bool = False) -> Attempt:
        """Return a new attempt. A server may have seen `number` earlier ones, and has refused `refusals` others."""
        route, args = self.route, self.route.args
        if self.hedging is not None:
            # A55: a pick notes its host in the override, and the cookie must name the host of the chosen attempt.
            args = structs.replace(args, override=args.override and replace(args.override))
        # A66: an attempt begins after name resolution and filters and before its pick.
        telemetry = self.telemetry.new_attempt(number, transparent) if self.telemetry is not None else None
        channel, deadline = self._channel, self.scope.deadline
        attempt = Attempt(channel, args, self.settings, self._request, deadline, number, refusals, telemetry)
        if route.config is not NO_METHOD_CONFIG and (seconds := route.config.attempt_timeout) is not None:
            attempt.timeout = AttemptTimeout(seconds)
        return attempt

    @property
    def attempts(self) -> CallAttempts:
        """Return the maker of later attempts; a unary call that succeeds at once never asks."""
        if self._attempts is None:
            channel, policy = self._channel, self.route.config.retry
            limit = self.settings.max_attempts
            retry = RetryState(policy, channel.random, channel.throttle, limit) if policy is not None else None
            replay = self._request if isinstance(self._request, ReplayBuffer) else None
            self._attempts = CallAttempts(self, retry, replay)
        return self._attempts

    # -- several attempts at a time

    async def _hedge(self, policy: HedgingPolicy) -> Status | None:
        """Begin a hedged call. One with a single message waits here for the choice; a streaming call runs it later."""
        replay = self._request if isinstance(self._request, ReplayBuffer) else None
        throttle, lifecycle = self._channel.throttle, self._channel.lifecycle
        limit = self.settings.max_attempts
        self.hedging = HedgingState(self, self.scope.path, policy, limit, replay, throttle, lifecycle)
        self.scope.waiting_for = "one of its attempts"
        if replay is not None:
            return None
        await self.scope.run_with_deadline(self.hedging.run)
        return self.hedging.problem

    def commit(self, attempt: Attempt) -> None:
        """Commit a hedged call to the chosen attempt (A6)."""
        self.attempt = attempt
        self.scope.waiting_for = attempt
        attempt.committed = True
        self.route.args.override = attempt.args.override  # its host becomes the session's
        # A31: each hedge picks in this cluster, so it is held until the commit.
        self.route.release()

    # -- the response

    def on_headers(self) -> None:
        """Commit the call to its attempt; the task that reads the connection calls this when the response begins."""
        attempt = self.attempt
        assert attempt is not None and attempt.stream is not None
        # A6: a trailers-only response does not commit a call and does not come here, so it may be retried.
        attempt.committed = True
        attempt.initial = self._respond(attempt.stream.initial_metadata or EMPTY)

    def _respond(self, metadata: Metadata) -> Metadata:
        metadata = self.route.respond(metadata)
        if self._session is not None and self._seen is not None:
            event = self._session.cookies.record_response(metadata, self.route.args, self._seen)
            if event is not None and self.telemetry is not None:
                self.telemetry.record_session(event)
        elif self.telemetry is not None:
            self.telemetry.record_response(self.route.args)
        return metadata

    def final_status(self) -> Status:
        """Return the call's status; if it has none yet, take that of its stream, which has ended.

        The trailing metadata come with it, as the filters leave them.
        """
        scope = self.scope
        if scope.status is not None:
            return scope.status
        attempt = self.attempt
        assert attempt is not None
        stream = attempt.stream
        assert stream is not None
        status = stream.status
        assert status is not None
        scope.status = status
        attempt.trailing = stream.trailing_metadata
        # A55: a trailers-only response has its Set-Cookie in the trailers.
        if stream.trailers_only:
            if self.route.filters is not None:
                # A `FilterCall` gets these as trailers, below, and so not as headers too.
                self.route.filters.end_headers()
            attempt.initial, attempt.trailing = EMPTY, self._respond(attempt.trailing)
        if self.route.filters is not None:
            attempt.trailing = self.route.filters.trailers(status, attempt.trailing)
        attempt.end()
        if self._channel.throttle is not None:
            # An attempt is counted when it is decided whether another one follows, here or by hedging.
            has_failed = self._attempts is not None and self._attempts.has_counted(attempt)
            has_no_headers = stream.trailers_only or attempt.initial is None
            is_counted = has_failed if self.route.config.retry is not None else has_no_headers
            record_end(self._channel.throttle, status, self.route.config, is_counted)
        return status

    def parse(self, payload: bytes, deserialize: Callable[[bytes], T], *, is_last: bool = False) -> T:
        """Return the deserialized message; bytes that cannot be parsed end the call with INTERNAL.

        With `is_last` it is the only reply of a call, whose status has come too and is taken with it.
        """
        message = payload if self.route.filters is None else self.route.filters.receive(payload)
        if is_last:
            # In this order filters see the message before the trailers, as in a stream.
            self.final_status()
        if message is not payload and isinstance(message, Status):
            raise self._unreadable(message)
        try:
            return deserialize(message)
        except Exception as error:
            assert self.attempt is not None
            peer = self.attempt.peer
            text = f"{self.scope.path}: a reply of {len(message)} bytes from {peer} cannot be parsed: {error}"
            raise self._unreadable(Status(StatusCode.INTERNAL, text)) from error

    def _unreadable(self, problem: Status) -> RpcError:
        """End the call because of a message that its caller cannot get; return the exception."""
        attempt, status = self.attempt, self.scope.status
        assert attempt is not None and attempt.stream is not None
        if attempt.stream.status is not None:
            attempt.end()  # it keeps the server's status
        attempt.refuse(problem)
        if status is not None and status.ok:
            self.scope.status = None  # the server's OK, of which the caller has not been told
        return self.scope.end(problem)

    # -- the end

    def error(self, status: Status) -> RpcError:
        """Release what only an open call needs; return the exception of its status, with metadata and peer."""
        # Now, and not when its block is left, for the caller may stay there: circuit breakers count the call no more
        # (A32), and the session's other calls do not wait for it.
        if self._first is not None:
            self._first.end()
        if self.hedging is not None:
            self.hedging.give_up(status)
        attempt = self.attempt
        if attempt is None:
            return RpcError(status)
        if attempt.stream is not None and attempt.stream.status is None:
            attempt.refuse(status)  # its time is over
        attempt.end()
        return RpcError(status, attempt.initial, attempt.trailing, attempt.peer)

    async def failure(self, status: Status) -> RpcError:
        """End the call with a status, unless it has one; return the exception of its status, after a checkpoint."""
        found_no_host = self.attempt is None or self.attempt.stream is None
        if found_no_host and status.code is StatusCode.UNAVAILABLE and self.route is not NO_ROUTE:
            status = self._channel.ignored_tls.with_note(status, self.route.args.cluster)
        return await self.scope.failure(status)

    def cancel(self, reason: str) -> None:
        """End the call, because its session or channel has ended."""
        self.scope.closed_error()
        # Both: without a deadline the wait for the stream has no cancel scope, and ends with the stream.
        self.scope.cancel(reason)
        if self.attempt is not None:
            self.attempt.cancel()
        if self.hedging is not None:
            self.hedging.stop()

    def end_call(self, status: Status) -> None:
        """End the call with `status`, whatever the server has sent, because its caller cancels it or cannot send."""
        if isinstance(self._request, ReplayBuffer):
            self._request.drop()  # whatever the retry policy says
        if self.attempt is not None:
            self.attempt.refuse(status)
        self.scope.end(status)
        self.scope.cancel("its caller has ended the call")

    def close(self) -> None:
        """Release everything: stream, cluster, trackers, and the session's first-call gate."""
        attempt, scope, calls = self.attempt, self.scope, self._channel.calls
        calls.open.pop(self, None)  # here, as its success is counted before the code of filters and observers runs
        stream = attempt.stream if attempt is not None else None
        # A stream that ended with its one reply holds nothing, so that it needs no cancelling.
        if stream is not None and (stream.status is None or not self.settings.one_reply):
            stream.cancel()
        status = scope.status
        if status is None:
            is_backing_off = self._attempts is not None and self._attempts.is_backing_off
            status = scope.leave(None if is_backing_off else stream)
        if status.ok:
            calls.succeeded += 1
        if attempt is not None and (attempt.trackers or attempt.telemetry is not None):
            attempt.end()
        if self.route.hold is not None:
            self.route.release()
        if self.route.filters is not None:
            self.route.filters.close(status)
        if self.hedging is not None:
            self.hedging.give_up(status)
        if self._attempts is not None and not status.ok:
            scope.cancel("its block was left")  # or another task would still make an attempt
        scope.error = RpcError  # a bound method here would be a cycle for the garbage collector
        self._attempts = None  # as this would be
        if self._session is not None:
            self._session.end_call(self)
            if self._first is not None:
                self._first.end()
        if self.telemetry is not None:
            telemetry, self.telemetry = self.telemetry, None
            telemetry.end(status)

    def __repr__(self) -> str:
        stream = self.attempt.stream if self.attempt is not None else None
        return f"<Rpc {self.scope.path}: {stream or self.scope.waiting_for}>"
