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
from typing import Any, TypeAlias, cast

import trio

from trxds.ground import metadata as md
from trxds.ground.metadata import EMPTY, Metadata
from trxds.ground.status import OK, Status, StatusCode, made_here
from trxds.lb.pick import Complete, Drop, Fail, PickArgs, PickResult, Queue, Tracker
from trxds.wire.request import Request
from trxds.wire.stream import NO_REPLY, ClientStream
from trxds.wire.subchannel import Subchannel

from .call_credentials import authorize, requires_tls
from .call_scope import CallScope
from .call_settings import CallSettings
from .channel_state import ChannelState
from .replay_buffer import ReplayBuffer
from .trackers import tell_began, tell_ended
from .watched import WatchedAttempt

_log = logging.getLogger("trxds.channel")


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


class Attempt:
    """`number` counts the attempts that a server may have seen before. `stream` is None until there is a host.

    `initial` and `trailing` are the response's metadata as filters leave it. `refusals` are the attempts of this call
    that left us and were refused.
    """

    __slots__ = (
        "_authorization",
        "_channel",
        "_deadline",
        "_request",
        "_settings",
        "_trackers",
        "args",
        "committed",
        "initial",
        "number",
        "refusals",
        "stream",
        "telemetry",
        "trailing",
    )

    def __init__(
        self,
        channel: ChannelState,
        args: PickArgs,
        settings: CallSettings,
        request: bytes | ReplayBuffer,
        deadline: float,
        number: int = 0,
        refusals: int = 0,
        telemetry: WatchedAttempt | None = None,
    ) -> None:
        """`request` is the call's one message, or what it has said so far; `deadline` is what the server is told."""
        self.args = args
        self.number = number
        self.refusals = refusals
        self.telemetry = telemetry
        self.stream: ClientStream | None = None
        self.committed = False
        self.initial: Metadata | None = None
        self.trailing = EMPTY
        self._channel = channel
        self._settings = settings
        self._request = request
        self._deadline = deadline
        self._authorization: md.Headers | None = None  # what the credentials gave for this attempt
        self._trackers: tuple[Tracker, ...] = ()

    # -- a host and a stream

    async def start(self, scope: CallScope, on_headers: Callable[[], None]) -> AttemptFailed | None:
        """Wait for a host and open the stream there; return why there is none.

        Whoever reads the connection calls `on_headers` when the response begins.
        """
        channel, args, settings = self._channel, self.args, self._settings
        if settings.credentials and (failed := await self._authorize(scope)) is not None:
            return failed
        while True:
            plane = channel.data_plane.current
            assert plane is not None
            args.now = channel.now()
            try:
                result: PickResult | object = plane.picker.pick(args)
            except Exception:
                result = self._foreign_exception()
            if self.telemetry is not None:
                self.telemetry.saw(result, args, settings.wait_for_ready)
            match result:
                case Complete():
                    if settings.credentials and (problem := requires_tls(settings.credentials, _subchannel(result))):
                        return AttemptFailed(problem, final=True)
                    # No checkpoint since the pick: what the picker knew of the host is still so.
                    self.stream = stream = self._open_on(result.host, on_headers)
                    if stream is not None:
                        if stream.id or await self._left_queue(stream, scope):
                            self._opened(stream, result.trackers)
                            scope.waiting_for = "the response"
                            return None
                        if not stream.refused:
                            return None  # it is over, and no host has seen it
                        self.stream = None
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
                    return AttemptFailed(self._nonsense(nonsense), final=True)
            # Also when the host refused the stream: its subchannel has posted its new state, so a
            # successor is certain, and picking from the same picker again would freeze the loop.
            await scope.wait_on_stream(partial(channel.data_plane.wait_for_change, plane))

    async def _authorize(self, scope: CallScope) -> AttemptFailed | None:
        # Each attempt asks anew: a token may be of the past after a long backoff.
        scope.waiting_for = "its call credentials"
        ask = partial(authorize, self._settings.credentials, self._channel.authority, self.args.path)
        found = await scope.run_with_deadline(ask)
        if isinstance(found, Status):
            return AttemptFailed(found)
        self._authorization = found
        return None

    def _foreign_exception(self) -> PickResult:
        """A picker may be the user's own: its bug fails this RPC, and its caller gets no foreign exception."""
        _log.exception("a picker raised; the RPC to %s fails", self.args.path)
        return Drop(Status(StatusCode.INTERNAL, "the load balancing policy raised an exception, see the log"))

    def _nonsense(self, result: object) -> Status:
        # A user's picker that forgot its `return`, say; to wait for another one may take for ever.
        _log.error("a picker answered %r, which is no PickResult; the RPC to %s fails", result, self.args.path)
        return Status(StatusCode.INTERNAL, "the load balancing policy gave no answer, see the log")

    def _open_on(self, host: Any, on_headers: Callable[[], None]) -> ClientStream | None:
        """`host` is a `Subchannel`, of which the tree knows less. None if it takes no stream.

        Nor if the caller's scope is cancelled: nothing is sent, and the next thing to wait for says so.
        """
        deadline = trio.current_effective_deadline()
        if deadline > self._deadline:
            deadline = self._deadline
        if deadline == -math.inf:
            return None
        settings, request = self._settings, self._request
        telemetry = self.telemetry
        opening = Request(
            self.args.path,
            self._channel.authority,
            self._headers(),
            deadline,
            on_headers,
            settings.max_receive_size,
            None if isinstance(request, ReplayBuffer) else request,
            telemetry.observers if telemetry is not None else None,
            settings.one_reply,
        )
        stream: ClientStream | None = host.open_stream(opening)
        return stream

    def _headers(self) -> md.Headers:
        metadata = self.args.metadata
        headers = md.encode(metadata) if metadata else []
        if self._settings.encoding:
            headers = [*headers, (b"grpc-encoding", self._settings.encoding.encode())]
        if self._authorization:
            headers = headers + self._authorization
        if self.number:
            # A6: transparent retries are not counted here, for no server has seen them.
            headers = [*headers, (b"grpc-previous-rpc-attempts", b"%d" % self.number)]
        if self.telemetry is not None:
            headers = headers + self.telemetry.headers
        return headers

    async def _left_queue(self, stream: ClientStream, scope: CallScope) -> bool:
        scope.waiting_for = "one of the streams that the host allows"
        return await scope.wait_on_stream(stream.wait_open)

    def _opened(self, stream: ClientStream, trackers: tuple[Tracker, ...]) -> None:
        self._trackers = trackers
        tell_began(trackers, self.args.path)
        if isinstance(self._request, ReplayBuffer):
            self._request.replay_on(stream)

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
        refused = stream.refused and not (self.refusals and stream.left)
        return AttemptFailed(status, stream.trailing_metadata, refused)

    def end(self, status: Status | None = None) -> None:
        """Tell telemetry and trackers: it ended with that status; if none is given, as its stream has."""
        if self.telemetry is not None:
            telemetry, self.telemetry = self.telemetry, None
            telemetry.end(status, self.stream)
        trackers, stream = self._trackers, self.stream
        if trackers and stream is not None:
            self._trackers = ()
            now = self._channel.now()
            tell_ended(trackers, self.args.path, stream.status or OK, stream.trailing_metadata, now)

    def cancel(self) -> None:
        """Another one was chosen, or the call is over. Plain and idempotent."""
        if self.stream is not None:
            self.stream.cancel()
        self.end()

    @property
    def peer(self) -> str:
        """The address of the host; empty while there is none."""
        return self.stream.peer if self.stream is not None else ""


def _subchannel(result: Complete) -> Subchannel:
    return cast(Subchannel, result.host)
