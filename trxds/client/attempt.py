"""An attempt of a call picks a host, opens one stream there, and reports its outcome (A6).

A call is not an attempt. It has one at a time, or with hedging several; their owner (`rpc.py`, `hedging.py`) decides
from the outcome whether another one follows.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

import trio
from msgspec import Struct

from trxds.core import metadata as md
from trxds.core.metadata import EMPTY, Metadata
from trxds.core.status import OK, Status, StatusCode, rewrite_illegal_status
from trxds.lb.circuit_breakers import count_in_flight
from trxds.lb.first_pass import FirstPass
from trxds.lb.pick import (
    Complete,
    Drop,
    Fail,
    PickArgs,
    Picker,
    PickResult,
    Queue,
    Tracker,
    notify_began,
    notify_ended,
)
from trxds.transport.client_stream import ClientStream
from trxds.transport.request import Request
from trxds.transport.response import NO_REPLY

from .attempt_timeout import AttemptTimeout
from .call_credentials import authorize, requires_tls
from .call_scope import CallScope
from .call_settings import CallSettings
from .call_telemetry import AttemptTelemetry
from .completed_call import CompletedCall
from .dataplane import DataPlane
from .replay_buffer import ReplayBuffer

_log = logging.getLogger("trxds.client")

T = TypeVar("T")


class AttemptCommitted(Struct, frozen=True):
    """The response has begun: this attempt is the call, however it may end (A6)."""


class AttemptFailed(Struct, frozen=True):
    """The attempt ended with this status and without a response.

    `refused`: no server has processed it, so a transparent retry is allowed (A6). `final`: no other attempt can
    succeed, because the load balancing policy drops the call, or its host may not see the credentials. `timed_out`: the
    attempt's own timeout ended it, and the policy may make another one whatever its codes.
    """

    status: Status
    trailing: Metadata = EMPTY
    refused: bool = False
    final: bool = False
    timed_out: bool = False


AttemptOutcome: TypeAlias = AttemptCommitted | AttemptFailed
COMMITTED = AttemptCommitted()


class AttemptPlane(Protocol):
    """The data plane as an attempt sees it."""

    @property
    def current(self) -> DataPlane | None: ...
    async def wait_for_change(self, plane: DataPlane) -> DataPlane: ...


class AttemptChannel(Protocol):
    """The channel as an attempt sees it; a pinned call has one of its own."""

    @property
    def authority(self) -> str: ...
    @property
    def now(self) -> Callable[[], float]: ...
    @property
    def data_plane(self) -> AttemptPlane: ...


class Attempt(Struct, eq=False):
    """An `Attempt` is one try of a call, on at most one stream; `stream` is None until there is a host.

    `number` counts the earlier attempts that a server may have seen. `request` is the call's one message, or the buffer
    of all that it has sent so far; `deadline` is sent to the server. `refusals` counts the attempts of this call that
    were sent and refused. `initial` and `trailing` are the response's metadata as the filters leave it. `timeout`, if
    any, is the attempt's own.
    """

    channel: AttemptChannel
    args: PickArgs
    settings: CallSettings
    request: bytes | ReplayBuffer
    deadline: float
    number: int
    refusals: int
    telemetry: AttemptTelemetry | None
    stream: ClientStream | None = None
    committed: bool = False
    initial: Metadata | None = None
    trailing: Metadata = EMPTY
    trackers: tuple[Tracker, ...] = ()
    timeout: AttemptTimeout | None = None

    def __str__(self) -> str:
        """Return what an open attempt waits for; see `CallScope`."""
        outgoing = self.stream.outgoing if self.stream is not None else None
        return "room to send" if outgoing is not None and outgoing.waits_for_room else "the response"

    # -- a host and a stream

    async def start(self, scope: CallScope, on_headers: Callable[[], None]) -> AttemptFailed | None:
        """Wait for a host and open the stream there; return the failure if there is none.

        The task that reads the connection calls `on_headers` when the response begins.
        """
        live, headers = self.channel.data_plane, self._headers()
        if self.settings.credentials:
            # Each attempt asks again: a token may have expired during a long backoff.
            scope.waiting_for = "its call credentials"
            # Never the host's (A81), or a control plane could ask for tokens of another service.
            audience = self.settings.audience or self.channel.authority
            ask = partial(authorize, self.settings.credentials, audience, self.args.path)
            found = await scope.run_with_deadline(ask)
            if isinstance(found, Status):
                return AttemptFailed(found)
            headers = [*headers, *found]
        while True:
            # An open call keeps its channel from being IDLE (`ClientChannel`), so there is a data plane after any wait.
            plane = live.current
            assert plane is not None
            picked = self._pick(plane.picker, headers, scope, on_headers)
            stream = self.stream
            if isinstance(picked, Complete) and stream is not None:
                if stream.id or await self._wait_open(stream, scope, picked.trackers):
                    if picked.trackers:
                        # Noted only as they begin, so that `end` calls those that have begun and no others.
                        self.trackers = picked.trackers
                        notify_began(picked.trackers, self.args.path)
                    if isinstance(self.request, ReplayBuffer):
                        # Nothing overtakes this: `Call.send` waits for it, and a hedge gets other messages after it.
                        self.request.replay_on(stream)
                    scope.waiting_for = self
                    if self.timeout is not None:
                        self.timeout.start()
                    return None
                if not stream.refused:
                    return None  # the stream has ended, and no host has seen it
                # A call takes its status and its peer from its stream, and no host has this call any more.
                self.stream = None
            elif isinstance(picked, AttemptFailed):
                return picked
            elif isinstance(picked, FirstPass):
                await scope.run_with_deadline(partial(self._wait_for_first_pass, picked, plane))
                continue
            if isinstance(picked, Complete):
                host = picked.host.address
                scope.waiting_for = f"a host of cluster {self.args.cluster}: {host}, which was picked, took no call"
            # This waits also after the host refused the stream: its subchannel has posted its new state, so another
            # picker is certain to come, and picking from the same one again would be an endless loop.
            await scope.run_with_deadline(partial(live.wait_for_change, plane))

    def _pick(
        self, picker: Picker, headers: md.Headers, scope: CallScope, on_headers: Callable[[], None]
    ) -> Complete | AttemptFailed | FirstPass | None:
        """Pick a host and open a stream there, without a checkpoint between, so that the picker's view still holds."""
        args, settings, telemetry = self.args, self.settings, self.telemetry
        args.now = self.channel.now()
        try:
            result: PickResult | object = picker.pick(args)
        except Exception:
            result = picker_exception(args)
        if telemetry is not None:
            telemetry.record_pick(result, args, settings.wait_for_ready, settings.authority)
        match result:
            # A policy of the program's own may take an address or an endpoint for its host.
            case Complete() if hasattr(result.host, "open_stream"):
                host: Any = result.host  # a `Subchannel`, of which the tree knows less
                # Only the pick names the host, and clusters of one channel may differ in their security (A29).
                if settings.credentials and (problem := requires_tls(settings.credentials, host)):
                    return AttemptFailed(problem, final=True)
                # The server gets the deadline of the caller's own cancel scope, if that is earlier.
                deadline = trio.current_effective_deadline()
                if deadline > self.deadline:
                    deadline = self.deadline
                if deadline == -math.inf:
                    return None  # the caller is cancelled: send nothing, and the next wait raises
                message = None if isinstance(self.request, ReplayBuffer) else self.request
                own = self.channel.authority
                if telemetry is not None:
                    headers = telemetry.add_headers(headers)
                if result.metadata:
                    added = _encode_added(result.metadata, args)
                    if isinstance(added, Status):
                        return AttemptFailed(added, final=True)
                    headers = [*headers, *added]
                # A81: the caller's goes before the host's, and that before the channel's.
                authority = settings.authority or result.authority or own
                request = Request(
                    args.path,
                    authority,
                    headers,
                    deadline,
                    on_headers,
                    settings.max_receive_size,
                    message,
                    None if telemetry is None else telemetry.of_messages,
                    settings.one_reply,
                    authority != own,
                )
                self.stream = host.open_stream(request)
                return result
            case Fail(Status() as status):
                if not settings.wait_for_ready:
                    # A54: a code that only a server may send becomes INTERNAL; a user's own policy may set any.
                    return AttemptFailed(rewrite_illegal_status(status, "the load balancing policy"))
                scope.waiting_for = f"a host: {status.message}"
            case Drop(Status() as status):
                # A drop fails a call that waits for ready too, and is not retried (wait-for-ready.md, A6).
                return AttemptFailed(rewrite_illegal_status(status, "the load balancing policy"), final=True)
            case Queue(FirstPass() as first_pass):
                scope.waiting_for = first_pass
                return first_pass
            case Queue():
                scope.waiting_for = f"a host of cluster {args.cluster} to connect"
            case nonsense:
                return AttemptFailed(no_pick_result(nonsense, args), final=True)
        return None

    async def _wait_for_first_pass(self, first_pass: FirstPass, plane: DataPlane) -> None:
        """Wait for the end of the first pass and for the picker that has all its hosts, as long as this call may."""
        override = self.args.override
        assert override is not None
        if override.spread_until == math.inf:
            # Half of the time that is left: the wait alone must fail no call.
            override.spread_until = (self.args.now + min(self.deadline, trio.current_effective_deadline())) / 2
        with trio.move_on_at(min(first_pass.ends_at, override.spread_until)):
            # Not for each picker: every host that connects would wake every session that waits.
            await first_pass.wait_ended()
            await self.channel.data_plane.wait_for_change(plane)

    def _headers(self) -> md.Headers:
        headers = md.encode(self.args.metadata) if self.args.metadata else []
        if self.settings.encoding:
            # A copy: `encode` keeps its list with the metadata, which other calls may have too.
            headers = [*headers, (b"grpc-encoding", self.settings.encoding.encode())]
        if self.number:
            # A6: transparent retries are not counted, because no server has seen them.
            headers = [*headers, (b"grpc-previous-rpc-attempts", b"%d" % self.number)]
        return headers

    async def _wait_open(self, stream: ClientStream, scope: CallScope, trackers: tuple[Tracker, ...]) -> bool:
        scope.waiting_for = "one of the streams that the host allows"
        # A105: the wait may be long, so the call counts for the circuit breaker; for all else it has not begun.
        with count_in_flight(trackers):
            return await scope.wait_on_stream(stream.wait_open)

    async def wait_response(self, step: Callable[[], Awaitable[T]], scope: CallScope) -> T:
        """Wait for the response by `step`, as long as the call's deadline and the attempt's own timeout allow."""
        if self.timeout is None:
            return await scope.wait_on_stream(step)
        assert self.stream is not None
        return await self.timeout.wait(step, scope, self.stream, self._may_be_replaced)

    def _may_be_replaced(self) -> bool:
        # A6: a call that has sent more than can be buffered is committed, though there is no response.
        return not self.committed and not (isinstance(self.request, ReplayBuffer) and self.request.dropped)

    # -- the outcome

    @property
    def refusals_so_far(self) -> int:
        """Return how many attempts of the call servers have refused, this one included."""
        assert self.stream is not None
        # Only a refusal by the server counts. A stream that never left can be repeated without limit (A6).
        return self.refusals + self.stream.has_left

    def outcome(self) -> AttemptOutcome:
        """Return the outcome of an attempt whose stream has a response or has ended."""
        stream = self.stream
        assert stream is not None
        status = stream.status
        # A server that sent OK has responded, though without the one reply (A6).
        if self.committed or status is None or status.ok or status is NO_REPLY:
            return COMMITTED
        # A6: an attempt that was never sent may be repeated without limit. One that a server refused may be repeated
        # once; its next refusal is a failure, or client and server could go on for ever.
        refused = stream.refused and not (self.refusals and stream.has_left)
        timed_out = self.timeout is not None and self.timeout.has_passed
        return AttemptFailed(status, stream.trailing_metadata, refused, timed_out=timed_out)

    def end(self, status: Status | None = None) -> None:
        """Report the attempt's end to telemetry and trackers: with `status`, or with its stream's if that is None."""
        if self.telemetry is not None:
            telemetry, self.telemetry = self.telemetry, None
            telemetry.end(status, self.stream)
            if self.stream is not None:
                # A send that fails ends the attempt, and the caller may still receive what came before.
                self.stream.request.observer = None
        if self.trackers and self.stream is not None:
            trackers, self.trackers = self.trackers, ()
            status, now = self.stream.status or OK, self.channel.now()
            notify_ended(trackers, self.args.path, status, self.stream.trailing_metadata, now)

    def refuse(self, problem: Status) -> None:
        """End the stream, if there is one, with `problem`, even if the server has sent OK."""
        # A client cannot send a status, so the server gets a RST_STREAM only.
        if self.stream is not None:
            # In this order: after `refuse` the stream has its status, and `cancel` only drops what is unread.
            self.stream.refuse(problem)
            self.stream.cancel()

    def forget_stream(self) -> None:
        """Cancel the stream that a cancelled `start` has left, so that `start` can be called again. Synchronous."""
        if self.stream is not None:
            self.stream.cancel()
            self.stream = None

    def cancel(self) -> None:
        """Cancel the attempt: another one was chosen, or the call is over. Synchronous and idempotent."""
        if self.stream is not None:
            self.stream.cancel()
        self.end()

    def completed(self) -> CompletedCall:
        """Return status, metadata and peer of a call that has its one reply."""
        assert self.stream is not None and self.stream.status is not None
        return CompletedCall(self.stream.status, self.initial or EMPTY, self.trailing, self.stream.peer)

    @property
    def peer(self) -> str:
        """Return the address of the host; empty while there is none."""
        return self.stream.peer if self.stream is not None else ""

    def __repr__(self) -> str:
        return f"<Attempt {self.number} of {self.args.path}: {self.stream or 'no host yet'}>"


def picker_exception(args: PickArgs) -> Drop:
    """Log the exception of a picker and fail this RPC: a bug in a user's policy must not reach the RPC's caller."""
    _log.exception("a picker raised; the RPC to %s fails", args.path)
    return Drop(Status(StatusCode.INTERNAL, "the load balancing policy raised an exception, see the log"))


def _encode_added(metadata: Sequence[tuple[str, md.Value]], args: PickArgs) -> md.Headers | Status:
    """Return the header fields that a picker adds; if they cannot be sent, log why, and return the RPC's status."""
    try:
        return md.encode(md.check(metadata))
    except (TypeError, ValueError) as error:
        _log.error("a picker returned metadata that cannot be sent, so the RPC to %s fails: %s", args.path, error)
        text = "the load balancing policy returned metadata that cannot be sent, see the log"
        return Status(StatusCode.INTERNAL, text)


def no_pick_result(result: object, args: PickArgs) -> Status:
    """Log that a picker returned something else than a good `PickResult`, and return the status of its RPC."""
    # For example a user's picker without a `return`; waiting for another picker might never end.
    text = "a picker returned %r, which is not a PickResult with a host of its inputs or a Status; the RPC to %s fails"
    _log.error(text, result, args.path)
    return Status(StatusCode.INTERNAL, "the load balancing policy returned no pick result, see the log")
