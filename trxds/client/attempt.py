"""One attempt of a call: it picks a host and opens one stream there, and tells what came of it.

A call is not an attempt. It has one at a time, or with hedging several, and whoever runs them (`rpc.py`,
`hedging.py`) decides from the outcome whether there is to be another one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import trio

from trxds.core import metadata as md
from trxds.core.metadata import EMPTY, Metadata
from trxds.core.status import OK, Status, StatusCode, made_here
from trxds.lb.pick import Complete, Drop, Fail, PickArgs, Picker, PickResult, Queue, Tracker
from trxds.lb.trackers import notify_began, notify_ended
from trxds.transport.client_stream import NO_REPLY, ClientStream
from trxds.transport.request import Request

from .call_credentials import authorize, requires_tls
from .call_scope import CallScope
from .call_settings import CallSettings
from .call_telemetry import AttemptTelemetry
from .channel_state import ChannelState
from .completed_call import CompletedCall
from .replay_buffer import ReplayBuffer

_log = logging.getLogger("trxds.client")


@dataclass(frozen=True, slots=True)
class AttemptCommitted:
    """The response has begun: this attempt is the call, however it may end (A6)."""


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """There was no response but this status.

    `refused`: no server has processed it, so it may be made again without anybody knowing (A6). `final`: no other
    attempt can fare better, for the load balancing policy drops the call, or its host may not see the credentials.
    """

    status: Status
    trailing: Metadata = EMPTY
    refused: bool = False
    final: bool = False


AttemptOutcome: TypeAlias = AttemptCommitted | AttemptFailed
COMMITTED = AttemptCommitted()


@dataclass(slots=True, eq=False, repr=False)
class Attempt:
    """`number` counts the attempts that a server may have seen before. `stream` is None until there is a host.

    `request` is the call's one message, or what it has said so far; `deadline` is what the server is told. `refusals`
    counts the attempts of this call that left us and were refused. `initial` and `trailing` are the response's
    metadata as filters leave it.
    """

    channel: ChannelState
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

    # -- a host and a stream

    async def start(self, scope: CallScope, on_headers: Callable[[], None]) -> AttemptFailed | None:
        """Wait for a host and open the stream there; return why there is none.

        Whoever reads the connection calls `on_headers` when the response begins.
        """
        live, headers = self.channel.data_plane, self._headers()
        if self.settings.credentials:
            # Each attempt asks anew: a token may be of the past after a long backoff.
            scope.waiting_for = "its call credentials"
            ask = partial(authorize, self.settings.credentials, self.channel.authority, self.args.path)
            found = await scope.run_with_deadline(ask)
            if isinstance(found, Status):
                return AttemptFailed(found)
            headers = [*headers, *found]
        while True:
            plane = live.current
            assert plane is not None
            picked = self._pick(plane.picker, headers, scope, on_headers)
            if isinstance(picked, AttemptFailed):
                return picked
            stream = self.stream
            if picked is not None and stream is not None:
                if stream.id or await self._left_queue(stream, scope):
                    if picked.trackers:
                        self.trackers = picked.trackers
                        notify_began(picked.trackers, self.args.path)
                    if isinstance(self.request, ReplayBuffer):
                        self.request.replay_on(stream)
                    scope.waiting_for = "the response"
                    return None
                if not stream.refused:
                    return None  # it is over, and no host has seen it
                self.stream = None
            # Also when the host refused the stream: its subchannel has posted its new state, so a
            # successor is certain, and picking from the same picker again would freeze the loop.
            await scope.run_with_deadline(partial(live.wait_for_change, plane))

    def _pick(
        self, picker: Picker, headers: md.Headers, scope: CallScope, on_headers: Callable[[], None]
    ) -> Complete | AttemptFailed | None:
        """Pick a host and open a stream there; no checkpoint between, so what the picker knew of it is still so."""
        args, settings, telemetry = self.args, self.settings, self.telemetry
        args.now = self.channel.now()
        try:
            result: PickResult | object = picker.pick(args)
        except Exception:
            result = self._foreign_exception()
        if telemetry is not None:
            telemetry.saw(result, args, settings.wait_for_ready)
        match result:
            case Complete():
                host: Any = result.host  # a `Subchannel`, of which the tree knows less
                if settings.credentials and (problem := requires_tls(settings.credentials, host)):
                    return AttemptFailed(problem, final=True)
                deadline = trio.current_effective_deadline()
                if deadline > self.deadline:
                    deadline = self.deadline
                if deadline == -math.inf:
                    return None  # the caller is cancelled: nothing is sent, and the next thing to wait for says so
                message = None if isinstance(self.request, ReplayBuffer) else self.request
                request = Request(
                    args.path,
                    self.channel.authority,
                    headers if telemetry is None else headers + telemetry.headers,
                    deadline,
                    on_headers,
                    settings.max_receive_size,
                    message,
                    None if telemetry is None else telemetry.observers,
                    settings.one_reply,
                )
                self.stream = host.open_stream(request)
                return result
            case Fail(status):
                if not settings.wait_for_ready:
                    return AttemptFailed(made_here(status, "the load balancing policy"))
                scope.waiting_for = f"a host of cluster {args.cluster}: {status.message}"
            case Drop(status):
                # A drop fails also what waits for ready, and is not retried (wait-for-ready.md, A6).
                return AttemptFailed(made_here(status, "the load balancing policy"), final=True)
            case Queue():
                scope.waiting_for = f"a host of cluster {args.cluster} to connect"
            case nonsense:
                # A user's picker that forgot its `return`, say; to wait for another one may take for ever.
                _log.error("a picker answered %r, which is no PickResult; the RPC to %s fails", nonsense, args.path)
                status = Status(StatusCode.INTERNAL, "the load balancing policy gave no answer, see the log")
                return AttemptFailed(status, final=True)
        return None

    def _foreign_exception(self) -> PickResult:
        """A picker may be the user's own: its bug fails this RPC, and its caller gets no foreign exception."""
        _log.exception("a picker raised; the RPC to %s fails", self.args.path)
        return Drop(Status(StatusCode.INTERNAL, "the load balancing policy raised an exception, see the log"))

    def _headers(self) -> md.Headers:
        headers = md.encode(self.args.metadata) if self.args.metadata else []
        if self.settings.encoding:
            headers = [*headers, (b"grpc-encoding", self.settings.encoding.encode())]
        if self.number:
            # A6: transparent retries are not counted here, for no server has seen them.
            headers = [*headers, (b"grpc-previous-rpc-attempts", b"%d" % self.number)]
        return headers

    async def _left_queue(self, stream: ClientStream, scope: CallScope) -> bool:
        scope.waiting_for = "one of the streams that the host allows"
        return await scope.wait_on_stream(stream.wait_open)

    # -- what came of it

    def outcome(self) -> AttemptOutcome:
        """What became of an attempt whose stream has begun to answer, or is over."""
        stream = self.stream
        assert stream is not None
        status = stream.status
        # A server that says OK has answered, though without the one reply (A6).
        if self.committed or status is None or status.ok or status is NO_REPLY:
            return COMMITTED
        # A6: what never left us may be made again as often as it likes. Once a server has refused the call, its next
        # refusal is a failure, or client and server could go on for ever.
        refused = stream.refused and not (self.refusals and stream.has_left)
        return AttemptFailed(status, stream.trailing_metadata, refused)

    def end(self, status: Status | None = None) -> None:
        """Tell telemetry and trackers: it ended with that status; if none is given, as its stream has."""
        if self.telemetry is not None:
            telemetry, self.telemetry = self.telemetry, None
            telemetry.end(status, self.stream)
        if self.trackers and self.stream is not None:
            trackers, self.trackers = self.trackers, ()
            status, now = self.stream.status or OK, self.channel.now()
            notify_ended(trackers, self.args.path, status, self.stream.trailing_metadata, now)

    def cancel(self) -> None:
        """Another one was chosen, or the call is over. Plain and idempotent."""
        if self.stream is not None:
            self.stream.cancel()
        self.end()

    def completed(self) -> CompletedCall:
        """What there is to know of a call that has its one reply."""
        assert self.stream is not None and self.stream.status is not None
        return CompletedCall(self.stream.status, self.initial or EMPTY, self.trailing, self.stream.peer)

    @property
    def peer(self) -> str:
        """The address of the host; empty while there is none."""
        return self.stream.peer if self.stream is not None else ""

    def __repr__(self) -> str:
        return f"<Attempt {self.number} of {self.args.path}: {self.stream or 'no host yet'}>"
