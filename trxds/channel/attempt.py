"""One attempt of a call: it waits within its time, picks a host, and opens a stream there.

There is no checkpoint between the pick and the opening of the stream. Most calls have one attempt and are
it themselves (`rpc.py`).
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import trio

from trxds.ground import metadata as md
from trxds.ground.metadata import EMPTY, Metadata
from trxds.ground.status import OK, RpcError, Status, StatusCode, made_here
from trxds.lb.pick import Complete, Drop, Fail, PickArgs, PickResult, Queue, Tracker
from trxds.wire.request import Request
from trxds.wire.subchannel import Subchannel

from .call_credentials import authorize, too_open
from .dataplane import ChannelState, DataPlane
from .trackers import tell_began, tell_ended

if TYPE_CHECKING:
    from trxds.wire.stream import ClientStream

    from .watched import WatchedAttempt, WatchedCall

_log = logging.getLogger("trxds.channel")

T = TypeVar("T")

_NO_HEADERS: md.Headers = []


class Attempt(ABC):
    """`stream` is where the attempt is under way; `initial` and `trailing` are what the caller is shown of it."""

    __slots__ = (
        "_abandoned",
        "_args",
        "_authorization",
        "_credentials",
        "_deadline",
        "_encoding",
        "_max_receive_size",
        "_max_send_size",
        "_one_reply",
        "_only",
        "_previous",
        "_refusals",
        "_scopes",
        "_seen",
        "_started",
        "_state",
        "_trackers",
        "_wait_for_ready",
        "_waiting_for",
        "_watch",
        "initial",
        "metadata",
        "path",
        "stream",
        "trailing",
    )

    def __init__(self, state: ChannelState, path: str, metadata: Metadata, wait_for_ready: bool | None) -> None:
        if state.closed:
            raise state.refusal()
        self.path = path
        self.metadata = metadata
        self.initial: Metadata | None = None
        self.trailing = EMPTY
        self.stream: ClientStream | None = None
        self._state = state
        self._wait_for_ready = wait_for_ready
        self._started = state.now()
        self._deadline = math.inf
        defaults = state.defaults
        self._credentials = defaults.credentials
        self._authorization: md.Headers | None = None  # what the credentials gave for this attempt
        self._encoding = defaults.encoding  # of our messages; empty for none
        self._max_send_size = defaults.max_send_size
        self._max_receive_size = defaults.max_receive_size
        self._waiting_for = state.first_awaited
        self._abandoned = False  # the channel closed before the call was over
        self._scopes: tuple[trio.CancelScope, ...] = ()  # a call has one or two at a time; most have none
        self._args: PickArgs | None = None
        self._only: bytes | None = None
        self._one_reply = False  # the method does not stream its replies
        self._previous = 0  # attempts that the server may have seen
        self._refusals = 0
        self._trackers: tuple[Tracker, ...] = ()
        self._watch: WatchedCall | None = None  # what is told of the call, if somebody watches
        self._seen: WatchedAttempt | None = None  # ... and of this attempt

    # -- its time

    async def on_stream(self, step: Callable[[], Awaitable[T]]) -> T:
        """Run one step that waits for the stream or the data plane: those end with the channel by themselves.

        So a call without a deadline needs no cancel scope, which costs as much as its routing.
        """
        if self._deadline < math.inf:
            return await self.within(step)
        result = await step()
        if self._abandoned:
            raise self._state.ending()
        return result

    async def within(self, step: Callable[[], Awaitable[T]]) -> T:
        """Run one step that may wait for anything: until it is done, the deadline, or the channel's end."""
        if self._state.closed:
            raise self._state.ending()
        with trio.CancelScope(deadline=self._deadline) as scope:
            self._scopes += (scope,)
            try:
                return await step()
            finally:
                self._scopes = tuple([other for other in self._scopes if other is not scope])
        if self._state.closed:
            raise self._state.ending()
        raise self._error(self._too_late())

    def _too_late(self) -> Status:
        # The time that it had, and not the hair by which that has passed: alike failures have equal messages.
        after = max(self._deadline - self._started, 0.0)
        message = f"{self.path}: not done after {after:.3g} s, waiting for {self._waiting_for}"
        return Status(StatusCode.DEADLINE_EXCEEDED, message)

    def abandon(self) -> None:
        """The channel has closed."""
        self._abandoned = True
        for scope in self._scopes:
            scope.cancel(reason="the channel has closed")
        if self.stream is not None:
            self.stream.cancel()

    def orphan(self) -> None:
        """This process is a fork of the call's: each further step of it raises."""
        self._abandoned, self._deadline = True, -math.inf

    # -- a host and a stream

    async def _pick(self) -> Status | None:
        args = self._args
        assert args is not None
        if self._watch is not None and self._seen is None:
            self._seen = self._watch.attempt(self._previous, self.stream)
        if self._credentials and (problem := await self._authorized()) is not None:
            return problem
        while True:
            plane = self._state.plane
            assert plane is not None
            args.now = self._state.now()
            try:
                result: PickResult | object = plane.picker.pick(args)
            except Exception:
                result = self._foreign_exception()
            if self._seen is not None:
                self._seen.saw(result, args, self._wait_for_ready)
            match result:
                case Complete():
                    if self._credentials and (problem := too_open(self._credentials, cast(Subchannel, result.host))):
                        return problem
                    stream = self._open_on(result.host)
                    if stream is not None:
                        self.stream = stream
                        if stream.id or await self._left_queue(stream):
                            self._waiting_for = "the response"
                            self._trackers = result.trackers
                            tell_began(result.trackers, self.path)
                            return None
                        if not stream.refused:
                            return None  # it is over, and no host has seen it
                case Fail(status):
                    if not self._wait_for_ready:
                        status = made_here(status, "the load balancing policy")
                        return await self._pick() if await self._backed_off(status, EMPTY) else status
                    self._waiting_for = f"a host of cluster {args.cluster}: {status.message}"
                case Drop(status):
                    return made_here(status, "the load balancing policy")
                case Queue():
                    self._waiting_for = f"a host of cluster {args.cluster} to connect"
                case nonsense:
                    # A user's picker that forgot its `return`, say; to wait for another one may take for ever.
                    _log.error("a picker answered %r, which is no PickResult; the RPC to %s fails", nonsense, self.path)
                    return Status(StatusCode.INTERNAL, "the load balancing policy gave no answer, see the log")
            # Also when the host refused the stream: its subchannel has posted its new state, so a
            # successor is certain, and picking from the same picker again would freeze the loop.
            await self._other_plane(plane)

    async def _authorized(self) -> Status | None:
        """Each attempt has its own: a token may be of the past after a long backoff."""
        while True:
            self._waiting_for = "its call credentials"
            found = await self.within(partial(authorize, self._credentials, self._state.authority, self.path))
            if not isinstance(found, Status):
                self._authorization = found
                return None
            if not await self._backed_off(found, EMPTY):
                return found

    def _foreign_exception(self) -> PickResult:
        """A picker may be the user's own: its bug fails this RPC, and its caller gets no foreign exception."""
        _log.exception("a picker raised; the RPC to %s fails", self.path)
        return Drop(Status(StatusCode.INTERNAL, "the load balancing policy raised an exception, see the log"))

    def _open_on(self, host: Any) -> ClientStream | None:
        """`host` is a `Subchannel`, of which the tree knows less. None if it takes no stream.

        Nor if the caller's scope is cancelled: nothing is sent, and the next thing to wait for says so.
        """
        deadline = trio.current_effective_deadline()
        if deadline > self._deadline:
            deadline = self._deadline
        if deadline == -math.inf:
            return None
        request = Request(
            self.path,
            self._state.authority,
            self._headers(),
            deadline,
            self._on_headers,
            self._max_receive_size,
            self._only,
            one_reply=self._one_reply,
        )
        if self._seen is not None:
            request.observer = self._seen.observers
        stream: ClientStream | None = host.open_stream(request)
        return stream

    async def _left_queue(self, stream: ClientStream) -> bool:
        self._waiting_for = "one of the streams that the host allows"
        return await self.on_stream(stream.wait_open)

    def _headers(self) -> md.Headers:
        headers = md.encode(self.metadata) if self.metadata else _NO_HEADERS
        if self._encoding:
            headers = [*headers, (b"grpc-encoding", self._encoding.encode())]
        if self._authorization:
            headers = headers + self._authorization
        if self._previous:
            headers = [*headers, (b"grpc-previous-rpc-attempts", b"%d" % self._previous)]
        if self._seen is not None:
            headers = headers + self._seen.headers
        return headers

    async def _other_plane(self, plane: DataPlane | None) -> DataPlane:
        return await self.on_stream(partial(self._state.other_than, plane))

    @abstractmethod
    async def _backed_off(self, status: Status, trailing: Metadata) -> bool:
        """The attempt failed: whether there is to be another, once it is time for it."""

    @abstractmethod
    def _on_headers(self) -> None:
        """Whoever reads the connection: the response has begun."""

    # -- the end

    def _unseen(self) -> bool:
        """The stream ended, and the server certainly did not see the call: nobody has to know (A6).

        That may be so as often as it likes if nothing had left us; once the server has said so, its next
        refusal is a failure.
        """
        stream = self.stream
        assert stream is not None
        if not stream.refused or (self._refusals and stream.left):
            return False
        self._refusals += stream.left
        self._end_attempt()
        if self._watch is not None:
            self._seen = self._watch.attempt(self._previous, stream, transparent=True)
        return True

    def _resemble(self, call: Attempt) -> None:
        """Be one more attempt of that call, with a pick of its own."""
        self._args = call._args and replace(call._args, override=call._args.override and replace(call._args.override))
        self._credentials = call._credentials
        self._deadline = call._deadline
        self._encoding = call._encoding
        self._max_receive_size = call._max_receive_size
        self._one_reply = call._one_reply
        self._only = call._only
        self._started = call._started
        self._wait_for_ready = call._wait_for_ready
        self._watch = call._watch

    def _take_over(self, attempt: Attempt) -> None:
        """Go on where that attempt is."""
        self.stream = attempt.stream
        self._trackers, attempt._trackers = attempt._trackers, ()
        self._seen, attempt._seen = attempt._seen, None
        if self._args is not None and self._args.override is not None and attempt._args is not None:
            self._args.override = attempt._args.override  # whose host is the session's now

    def _error(self, status: Status) -> RpcError:
        if self._watch is not None:
            self._watch.failure = status
        return RpcError(status, self.initial, self.trailing, self.stream.peer if self.stream is not None else "")

    def _end_attempt(self, status: Status | None = None) -> None:
        """With that status; if none is given, as its stream has ended."""
        if self._seen is not None:
            seen, self._seen = self._seen, None
            seen.end(status, self.stream)
        trackers, self._trackers = self._trackers, ()
        if not trackers or self.stream is None:
            return
        status = self.stream.status or OK
        tell_ended(trackers, self.path, status, self.stream.trailing_metadata, self._state.now())
