"""An `Rpc` is one RPC over all its attempts (A6), from the caller's metadata to the release of its resources.

    route (`call_routing.py`) -> attempt (`attempt.py`) -> another attempt, if that failed and may be repeated

An RPC costs no task and no nursery. It runs in its caller's task, and parks once on its stream.
"""

from __future__ import annotations

import logging
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
from trxds.transport.compression import compress

from .attempt import Attempt, AttemptFailed
from .attempt_timeout import AttemptTimeout
from .call_routing import NO_ROUTE, find_route
from .call_scope import CallScope
from .call_settings import CallSettings
from .call_telemetry import CallTelemetry
from .channel_state import ChannelState
from .hedging import HedgingState
from .lifecycle import current_run
from .open_session import OpenSession
from .replay_buffer import ReplayBuffer
from .retry import PendingRetry, RetryState, record_end

_log = logging.getLogger("trxds.client")

T = TypeVar("T")

# Seconds. The server counts the same deadline, and may report it just before it passes here.
_GRACE = 0.1


class Rpc:
    """An `Rpc` is one RPC over all its attempts. `close` must be called, whatever happens; it is synchronous."""

    is_pinned: ClassVar[bool] = False  # to one host
    __slots__ = (
        "_channel",
        "_first",
        "_metadata",
        "_request",
        "_retry",
        "_route",
        "_seen",
        "_session",
        "_settings",
        "_telemetry",
        "attempt",
        "hedging",
        "scope",
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
        self._settings = settings
        self._request: bytes | ReplayBuffer
        self._route = NO_ROUTE
        self._retry: RetryState | None = None
        self._telemetry: CallTelemetry | None = None  # None without an observer
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
            self._telemetry = CallTelemetry(observers, session)

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
                # Before `parse`: a reply that cannot be read fails the call, and the attempt keeps the server's status.
                self.final_status()
                return self.parse(reply, deserialize)
            problem = await self.reopen() if await self.has_another_attempt() else self.final_status()
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
            if self._telemetry is not None:
                self._telemetry.record_configuration()
        route = await find_route(channel, scope, self._metadata, self._settings.wait_for_ready)
        if isinstance(route, Status):
            return route
        # A31: the cluster is chosen once for a call, and every attempt stays in it.
        self._route = route
        config = route.config
        if self._session is not None:
            # After the filters: the override, which the session filter sets, shows whether the call is sticky (A55).
            problem = self._session.check_sticky(route.args)
            if problem is not None:
                return problem
        if config is not NO_METHOD_CONFIG:
            self._settings = self._settings.limited_by(config)
        if self._telemetry is not None and not self.is_pinned:
            self._telemetry.record_route(route.args.cluster, config.hedging is not None)
        settings = self._settings
        # Once for all attempts, so that filters see a message once. The messages of a stream come from `Call.send`.
        if isinstance(request, bytes) and (route.filters or settings.encoding or len(request) > settings.max_send_size):
            outgoing = self.outgoing(request)
            if isinstance(outgoing, Status):
                return outgoing
            request = outgoing
        self._request = request
        # Several attempts at a time at one host would only load it.
        if config.hedging is not None and not self.is_pinned:
            return await self._hedge(config.hedging)
        self.attempt = attempt = self.new_attempt()
        failed = await attempt.start(scope, self.on_headers)
        problem = None if failed is None else await self._recover(failed)
        # Only a call that has found a host is copied, as in Envoy, and its later attempts are not.
        if problem is None and config.mirrors is not None and not self.is_pinned:
            session_headers = self._session.cookies.metadata.header_names if self._session is not None else ()
            config.mirrors.copy_call(route.args, request, settings, scope, session_headers)
        return problem

    def outgoing(self, payload: bytes, *, compressed: bool = True) -> bytes | Status:
        """Return the bytes to send; a status if a filter fails, or the message is longer than `max_send_size`."""
        settings = self._settings
        if self._route.filters is not None:
            filtered = self._route.filters.send(payload)
            if isinstance(filtered, Status):
                return filtered
            payload = filtered
        if len(payload) > settings.max_send_size:
            limit = f"the limit of {settings.max_send_size}; raise max_send_size, or the service config's"
            text = f"{self.scope.path}: message of {len(payload)} bytes is larger than {limit}"
            return Status(StatusCode.RESOURCE_EXHAUSTED, text)
        return compress(payload, settings.encoding) if settings.encoding and compressed else payload

    def only_compresses(self, size: int) -> bool:
        """Return whether `outgoing` takes any message of `size` bytes, and does no more than to compress it."""
        return self._route.filters is None and size <= self._settings.max_send_size

    # -- attempts, one after another

    def new_attempt(self, number: int = 0, refusals: int = 0, transparent: bool = False) -> Attempt:
        """Return a new attempt. A server may have seen `number` earlier ones, and has refused `refusals` others."""
        route, args = self._route, self._route.args
        if self.hedging is not None:
            # A55: a pick notes its host in the override, and the cookie must name the host of the chosen attempt.
            args = structs.replace(args, override=args.override and replace(args.override))
        # A66: an attempt begins after name resolution and filters and before its pick.
        telemetry = self._telemetry.new_attempt(number, transparent) if self._telemetry is not None else None
        channel, deadline = self._channel, self.scope.deadline
        attempt = Attempt(channel, args, self._settings, self._request, deadline, number, refusals, telemetry)
        if route.config is not NO_METHOD_CONFIG and (seconds := route.config.attempt_timeout) is not None:
            attempt.timeout = AttemptTimeout(seconds)
        return attempt

    async def reopen(self) -> Status | None:
        """Open a stream for the next attempt, or return the status with which the call failed."""
        assert self.attempt is not None
        if self._retry is not None and self._retry.pending is not None:
            # The attempt has found no host, and the caller has cancelled its wait for the backoff.
            return await self._recover(AttemptFailed(self._retry.pending.failure))
        return await self._recover(await self.attempt.start(self.scope, self.on_headers))

    async def _recover(self, failed: AttemptFailed | None) -> Status | None:
        """Start further attempts, as long as they fail before they have a stream and may be repeated."""
        while failed is not None:
            assert self.attempt is not None
            if failed.final or not await self._retry_attempt(failed):
                self.attempt.end(failed.status)
                return failed.status
            failed = await self.attempt.start(self.scope, self.on_headers)
        return None

    async def has_another_attempt(self) -> bool:
        """Return whether another attempt follows the failed stream, after its backoff; `reopen` begins it.

        The cluster is held meanwhile, so an update cannot remove it (A60).
        """
        assert self.attempt is not None
        outcome = self.attempt.outcome()
        return isinstance(outcome, AttemptFailed) and await self._retry_attempt(outcome)

    def transparent_retry(self, refused: Attempt) -> Attempt:
        """Return a transparent retry: it is made at once, without a policy, and does not count as an attempt (A6)."""
        assert refused.stream is not None
        refused.end()
        # Only a refusal by the server counts. A stream that never left can be repeated without limit (A6).
        return self.new_attempt(refused.number, refused.refusals + refused.stream.has_left, transparent=True)

    async def _retry_attempt(self, failed: AttemptFailed) -> bool:
        """Replace the attempt, which has failed, after its backoff, if it may be repeated; return whether it was."""
        attempt = self.attempt
        assert attempt is not None
        if failed.refused:
            self.attempt = self.transparent_retry(attempt)
            return True
        policy = self._route.config.retry
        if policy is None:
            return False
        if self._retry is None:
            channel = self._channel
            self._retry = RetryState(policy, channel.random, channel.throttle, self._settings.max_attempts)
        retry = self._retry
        # A caller may cancel its wait and come again: the failure counts once, and the backoff goes on.
        if retry.pending is None:
            # A6: a failed pick counts as a failed attempt, so both come here; a drop does not.
            delay = retry.next_delay(failed.status, failed.trailing, failed.timed_out)
            if delay is None:
                return False
            # Before the backoff: a call that only waits is not in flight, so circuit breakers do not count it (A32).
            attempt.end(failed.status)
            if self._telemetry is not None:
                self._telemetry.record_backoff(delay)
            retry.pending = PendingRetry(failed.status, trio.current_time() + delay)
        self.scope.waiting_for = f"the next attempt, after {failed.status}"
        await self.scope.run_with_deadline(partial(trio.sleep_until, retry.pending.due))
        retry.pending = None
        if isinstance(self._request, ReplayBuffer) and self._request.dropped:
            return False  # a message could not be sent during the backoff: see `give_up`
        self._route.args.drop_draws = None  # A27: it is an RPC of its own for the cluster
        self.attempt = self.new_attempt(attempt.number + 1, attempt.refusals)
        return True

    # -- several attempts at a time

    async def _hedge(self, policy: HedgingPolicy) -> Status | None:
        """Begin a hedged call. One with a single message waits here for the choice; a streaming call runs it later."""
        replay = self._request if isinstance(self._request, ReplayBuffer) else None
        throttle, lifecycle = self._channel.throttle, self._channel.lifecycle
        limit = self._settings.max_attempts
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
        self._route.args.override = attempt.args.override  # its host becomes the session's
        # A31: each hedge picks in this cluster, so it is held until the commit.
        self._route.release()

    # -- the response

    def on_headers(self) -> None:
        """Commit the call to its attempt; the task that reads the connection calls this when the response begins."""
        attempt = self.attempt
        assert attempt is not None and attempt.stream is not None
        # A6: a trailers-only response does not commit a call and does not come here, so it may be retried.
        attempt.committed = True
        attempt.initial = self._respond(attempt.stream.initial_metadata or EMPTY)

    def _respond(self, metadata: Metadata) -> Metadata:
        metadata = self._route.respond(metadata)
        if self._session is not None and self._seen is not None:
            event = self._session.cookies.record_response(metadata, self._route.args, self._seen)
            if event is not None and self._telemetry is not None:
                self._telemetry.record_session(event)
        elif self._telemetry is not None:
            self._telemetry.record_response(self._route.args)
        return metadata

    def final_status(self) -> Status:
        """Return the status of the ended stream; set the trailing metadata as the filters leave it."""
        attempt = self.attempt
        assert attempt is not None
        stream = attempt.stream
        assert stream is not None
        status = stream.status
        assert status is not None
        attempt.trailing = stream.trailing_metadata
        # A55: a trailers-only response has its Set-Cookie in the trailers.
        if stream.trailers_only:
            if self._route.filters is not None:
                # A `FilterCall` gets these as trailers, below, and so not as headers too.
                self._route.filters.end_headers()
            attempt.trailing = self._respond(attempt.trailing)
        if self._route.filters is not None:
            attempt.trailing = self._route.filters.trailers(status, attempt.trailing)
        attempt.end()
        if self._channel.throttle is not None:
            # An attempt is counted when it is decided whether another one follows, here or by hedging.
            has_failed = self._retry is not None and self._retry.attempts_made > attempt.number
            is_counted = has_failed if self._route.config.retry is not None else attempt.initial is None
            record_end(self._channel.throttle, status, self._route.config, is_counted)
        return status

    def parse(self, payload: bytes, deserialize: Callable[[bytes], T]) -> T:
        """Return the deserialized message; bytes that cannot be parsed end the call with INTERNAL."""
        if self._route.filters is not None:
            filtered = self._route.filters.receive(payload)
            if isinstance(filtered, Status):
                assert self.attempt is not None
                self.attempt.refuse(filtered)
                raise self.error(filtered)
            payload = filtered
        try:
            return deserialize(payload)
        except Exception as error:
            assert self.attempt is not None
            peer = self.attempt.peer
            message = f"{self.scope.path}: a reply of {len(payload)} bytes from {peer} cannot be parsed: {error}"
            problem = Status(StatusCode.INTERNAL, message)
            self.attempt.refuse(problem)
            raise self.error(problem) from error

    def error(self, status: Status) -> RpcError:
        """Return the exception for a status, which ends the call, with the response's metadata and the peer."""
        if self._telemetry is not None:
            self._telemetry.failure = status
        if self._route.filters is not None:
            self._route.filters.failure = status
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
        """Return the exception for a status, after a checkpoint: a caller that retries at once must starve nobody."""
        await trio.lowlevel.checkpoint()
        deadline = trio.current_effective_deadline()
        grace_end = min(self.scope.deadline, trio.current_time() + _GRACE)
        if status.code is StatusCode.DEADLINE_EXCEEDED and deadline < grace_end:
            # The caller's own cancel scope is about to end the call, and its code expects `Cancelled`.
            await trio.sleep_until(deadline + _GRACE)
        found_no_host = self.attempt is None or self.attempt.stream is None
        if found_no_host and status.code is StatusCode.UNAVAILABLE and self._route is not NO_ROUTE:
            status = self._channel.ignored_tls.with_note(status, self._route.args.cluster)
        self.scope.failed_with = status
        return self.error(status)

    # -- the end

    def cancel(self, reason: str) -> None:
        """End the call, because its session or channel has ended."""
        # Both: without a deadline the wait for the stream has no cancel scope, and ends with the stream.
        self.scope.cancel(reason)
        if self.attempt is not None:
            self.attempt.cancel()
        if self.hedging is not None:
            self.hedging.stop()

    def end_call(self, status: Status) -> None:
        """End the call with `status`, whatever the server has sent of it, because its caller has cancelled it."""
        if self.attempt is not None:
            self.attempt.refuse(status)
        self.scope.end_call(status)

    def give_up(self, problem: Status) -> None:
        """End the call with `problem`, because the caller's message cannot be sent."""
        # Whatever the retry policy says: this message could not be sent in another attempt either.
        if isinstance(self._request, ReplayBuffer):
            self._request.drop()
        # A task that receives learns the reason too, and not that all is well if the server has ended the call with OK.
        if self.attempt is not None:
            self.attempt.refuse(problem)
        if self.hedging is not None:
            self.hedging.give_up(problem)

    def close(self) -> None:
        """Release everything: stream, cluster, trackers, and the session's first-call gate."""
        stream = None
        attempt = self.attempt
        calls = self._channel.calls
        calls.open.pop(self, None)  # here, as its success is counted before the code of filters and observers runs
        if attempt is not None:
            stream = attempt.stream
            if stream is not None:
                # A stream that ended with its one reply holds nothing, so that it needs no cancelling.
                if stream.status is None or not self._settings.one_reply:
                    stream.cancel()
                if stream.status is not None and stream.status.ok:
                    calls.succeeded += 1
            if attempt.trackers or attempt.telemetry is not None:
                attempt.end()
        if self._route.hold is not None:
            self._route.release()
        if self._route.filters is not None:
            self._route.filters.close(stream.status if stream is not None else None)
        if self.hedging is not None:
            self.hedging.stop()
        self.scope.error = RpcError  # a bound method here would be a cycle for the garbage collector
        if self._session is not None:
            self._session.end_call(self)
            if self._first is not None:
                self._first.end()
        if self._telemetry is not None:
            telemetry, self._telemetry = self._telemetry, None
            telemetry.end(stream)

    def __repr__(self) -> str:
        stream = self.attempt.stream if self.attempt is not None else None
        return f"<Rpc {self.scope.path}: {stream or self.scope.waiting_for}>"
