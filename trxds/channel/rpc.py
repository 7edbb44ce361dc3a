"""One RPC, from the caller's metadata to an open stream, and what it has to let go of at the end.

    choose a route -> hold the route table -> filters -> hold the cluster, let the table go
    -> pick -> open a stream, with no checkpoint in between

An RPC costs no task and no nursery. It runs in its caller's task, and parks once on its stream.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from trxds.config.method_config import NO_METHOD_CONFIG, HedgingPolicy, MethodConfig
from trxds.config.select import Selection
from trxds.ground.lifetime import Lifetime
from trxds.ground.metadata import EMPTY, Metadata
from trxds.ground.observe import CallBegun
from trxds.ground.status import RpcError, Status, StatusCode
from trxds.lb.pick import PickArgs
from trxds.wire.compression import compress
from trxds.wire.stream import NO_REPLY

from .attempt import Attempt
from .call_credentials import CallCredentials
from .completed_call import CompletedCall
from .dataplane import ChannelState, DataPlane, NextConfiguration
from .filter import Filter, Respond, Wait
from .hedging import Hedges
from .retry import Retries
from .watched import WatchedCall

if TYPE_CHECKING:
    from trxds.affinity.session import SessionCookies

_log = logging.getLogger("trxds.channel")

T = TypeVar("T")

# A server counts the same deadline and may be first to say so by a hair.
_GRACE = 0.1


class Rpc(Attempt):
    """One RPC over all its attempts. `finish` must be called, whatever happens; it is plain."""

    __slots__ = ("_committed", "_config", "_first", "_kept", "_responds", "_retries", "_session", "hedges")

    def __init__(
        self,
        state: ChannelState,
        path: str,
        metadata: Metadata,
        timeout: float | None,
        wait_for_ready: bool | None,
        session: SessionCookies | None,
        encoding: str | None = None,
        credentials: CallCredentials | None = None,
        *,
        one_reply: bool = False,
    ) -> None:
        """`encoding`, if any, takes the place of the channel's; `credentials` are shown beside the channel's."""
        super().__init__(state, path, metadata, wait_for_ready)
        self._one_reply = one_reply
        if encoding is not None:
            self._encoding = encoding
        if credentials is not None:
            self._credentials = (*self._credentials, credentials)
        if timeout is not None:
            self._deadline = _deadline(self._started, timeout)
        # After all that may raise: who claims to be the first has to finish, or the session waits for ever.
        self._session = session
        self._first = session is not None and session.claim()
        if self._deadline <= self._started:
            self._waiting_for = "nothing: its time was over when it began"
        self._kept: Lifetime | None = None  # the route table's, then the cluster's, until commit
        self._responds: tuple[Respond, ...] = ()
        self._committed = False
        self._config = NO_METHOD_CONFIG
        self.hedges: Hedges | None = None
        self._retries: Retries | None = None
        state.rpcs.add(self)

    def _shorten(self, limit: float) -> None:
        """The route allows that many seconds from the call's start; never longer than the caller does."""
        if self._started + limit >= self._deadline:
            return
        self._deadline = self._started + limit
        for scope in self._scopes:
            scope.deadline = self._deadline

    def watch(self, registered: bool) -> None:
        """Tell whoever watches the channel of this call, from here on to its end. Plain."""
        session = self._session
        call = CallBegun(self.path, registered, session.number if session is not None else None, self.metadata)
        observers = self._state.observers.call(call)
        if observers is not None:
            self._watch = WatchedCall(observers, session)

    @property
    def clock(self) -> Callable[[], float]:
        """Trio's time, for who asks often."""
        return self._state.now

    # -- one unary call

    async def ask(self, request: bytes, deserialize: Callable[[bytes], T]) -> T:
        """Send one message and get one back. Raises `RpcError`; always a checkpoint."""
        while True:
            problem = await self.open(request)
            if problem is not None:
                raise await self.failure(problem)
            stream = self.stream
            assert stream is not None
            reply = await self.on_stream(stream.receive_only)
            if reply is None and await self.another_attempt():
                continue
            status = self.settle()
            if reply is None:
                raise await self.failure(status)
            return self.parse(reply, deserialize)

    def completed(self) -> CompletedCall:
        """What there is to know of a call that has its one reply."""
        stream = self.stream
        assert stream is not None and stream.status is not None
        return CompletedCall(stream.status, self.initial or EMPTY, self.trailing, stream.peer)

    # -- from metadata to a stream

    async def open(self, only: bytes | None = None) -> Status | None:
        """Open a stream, or say why there cannot be one. Called again, it begins another attempt.

        If the call has but one message to say, that leaves with the headers.
        """
        if self._args is None:
            self._state.calls_begun += 1
            self._state.last_call = self._started
            if self._deadline <= self._started:
                await trio.lowlevel.checkpoint_if_cancelled()
                raise self._error(self._too_late())
            problem = await self._route()
            if problem is not None:
                return problem
            if only is not None:
                outgoing = self.outgoing(only) if self._encoding or len(only) > self._max_send_size else only
                if isinstance(outgoing, Status):
                    return outgoing
                self._only = outgoing
            if self._config.hedging is not None:
                return await self._hedge(self._config.hedging)
        problem = await self._pick()
        if problem is not None and self._seen is not None:
            self._end_attempt(problem)
        return problem

    async def _hedge(self, policy: HedgingPolicy) -> Status | None:
        """A call that says one thing waits here for the attempt that is chosen; any other runs them itself."""
        self.hedges = Hedges(self, policy, self._only)
        if self._only is None:
            return None
        self._waiting_for = "one of its attempts"
        await self.within(self.hedges.run)
        return self.hedges.problem

    def adopt(self, attempt: Attempt) -> None:
        """That attempt was chosen: it is the call from here on."""
        self._take_over(attempt)
        self._committed = True
        self._release()

    def abandon(self) -> None:
        super().abandon()
        if self.hedges is not None:
            self.hedges.stop()

    def give_up(self, problem: Status) -> None:
        """The caller has said what cannot be sent: the call is over."""
        if self.stream is not None:
            self.stream.cancel()
        if self.hedges is not None:
            self.hedges.give_up(problem)

    def outgoing(self, payload: bytes, *, compressed: bool = True) -> bytes | Status:
        """A message as it is sent; a status if it is too long, by what it is before it is compressed."""
        if len(payload) > self._max_send_size:
            limit = f"the limit of {self._max_send_size}; raise max_send_size, or the service config's"
            text = f"{self.path}: message of {len(payload)} bytes is larger than {limit}"
            return Status(StatusCode.RESOURCE_EXHAUSTED, text)
        return compress(payload, self._encoding) if self._encoding and compressed else payload

    async def _route(self) -> Status | None:
        if self._session is not None:
            if not self._first:
                self._waiting_for = "the session's first call"
                await self.within(self._session.wait)
            self.metadata = self._session.fill(self.metadata, self.path)
        plane = self._state.plane or await self._first_plane()
        while True:
            selection = plane.selector.choose(self.path, self.metadata)
            if isinstance(selection, Selection):
                args = self._select(selection)
                problem = await self._filter(selection, args) if selection.cluster.chain else None
                if problem is None:
                    self._keep(selection, args)
                return problem
            if not (selection.may_change and self._wait_for_ready):
                return selection.status
            self._waiting_for = NextConfiguration(self._state)
            plane = await self._other_plane(plane)

    async def _first_plane(self) -> DataPlane:
        plane = await self._other_plane(None)
        if self._watch is not None:
            self._watch.configured()
        return plane

    def _configure(self, config: MethodConfig) -> None:
        """Not less strict than the caller, and of two wishes the caller's (A6, doc/service_config.md)."""
        self._config = config
        if self._wait_for_ready is None:
            self._wait_for_ready = config.wait_for_ready
        if config.max_response_size is not None:
            self._max_receive_size = min(self._max_receive_size, config.max_response_size)
        if config.max_request_size is not None:
            self._max_send_size = min(self._max_send_size, config.max_request_size)

    def _select(self, selection: Selection) -> PickArgs:
        if selection.route.limit < math.inf:
            self._shorten(selection.route.limit)
        if selection.route.config is not NO_METHOD_CONFIG:
            self._configure(selection.route.config)
        return PickArgs(self.path, self.metadata, selection.route, selection.cluster.name, hash=selection.hash)

    async def _filter(self, selection: Selection, args: PickArgs) -> Status | None:
        for one in selection.cluster.chain:
            try:
                respond = one.start(args)
            except Exception:
                _log.exception("filter %r raised; the RPC to %s fails", one, self.path)
                return Status(StatusCode.INTERNAL, f"the filter {type(one).__name__} raised an exception, see the log")
            if isinstance(respond, Wait):
                respond = await self._waited(respond, one, selection)
            if isinstance(respond, Status):
                return selection.route.of_filter(respond)
            if respond is not None:
                self._responds += (respond,)
        if self._state.closed:
            raise self._state.ending()
        return None

    def _keep(self, selection: Selection, args: PickArgs) -> None:
        """The cluster's name is final: hold it and let the table go."""
        table, self._kept = self._kept, selection.table.keep_cluster(args.cluster)
        if table is not None:
            table.let_go()
        self._args = args
        if self._watch is not None:
            self._watch.routed(args.cluster, self._config.hedging is not None)

    async def _waited(self, wait: Wait, one: Filter, selection: Selection) -> Respond | Status | None:
        """What that filter has to say in the end.

        The table keeps every cluster of the route alive while a filter may still choose (A60). Where none waits,
        nothing can come between the choice of a cluster and the hold on it, and the table need not be held.
        """
        if self._kept is None:
            selection.table.lifetime.keep()
            self._kept = selection.table.lifetime
        self._waiting_for = f"the filter {type(one).__name__}"
        return await self.within(wait.step)

    # -- the response

    def _on_headers(self) -> None:
        """Whoever reads the connection: the response has begun, so no other attempt will be made."""
        assert self.stream is not None
        self._committed = True
        if self._kept is not None:
            self._release()
        self.initial = self._respond(self.stream.initial_metadata or EMPTY)

    def _respond(self, metadata: Metadata) -> Metadata:
        for respond in self._responds:
            try:
                metadata = respond(metadata)
            except Exception:
                _log.exception("a filter raised on the response of %s; its headers stay as they are", self.path)
        if self._watch is not None and self._args is not None:
            self._watch.answered(self._args)
        if self._session is not None:
            self._session.heard(metadata, self._args)
        return metadata

    @property
    def committed(self) -> bool:
        """The response has begun: this attempt is the call."""
        return self._committed

    async def another_attempt(self) -> bool:
        """The stream has failed: whether there is to be another one, once it is time for it.

        The cluster is held meanwhile, so an update cannot take it away (A60).
        """
        stream = self.stream
        assert stream is not None and stream.status is not None
        # A server that says OK has answered, though without the one reply (A6).
        if self._committed or stream.status is NO_REPLY:
            return False
        if self._unseen():
            return True
        return await self._backed_off(stream.status, stream.trailing_metadata)

    async def _backed_off(self, status: Status, trailing: Metadata) -> bool:
        policy = self._config.retry
        if policy is None:
            return False
        if self._retries is None:
            self._retries = Retries(policy, self._state.random, self._state.throttle)
        delay = self._retries.after(status, trailing)
        if delay is None:
            return False
        self._end_attempt(status)
        self._previous += 1
        if self._watch is not None:
            self._watch.backing_off(delay, self.stream)
        self._waiting_for = f"the next attempt, after {status}"
        await self.within(partial(trio.sleep, delay))
        return True

    def settle(self) -> Status:
        """The stream is over: its status, with the trailing metadata as the filters leave it."""
        stream = self.stream
        assert stream is not None and stream.status is not None
        trailing = stream.trailing_metadata
        self.trailing = self._respond(trailing) if stream.trailers_only else trailing
        self._end_attempt()
        if self._state.throttle is not None and stream.status.ok:
            self._state.throttle.succeeded()
        return stream.status

    def parse(self, payload: bytes, deserialize: Callable[[bytes], T]) -> T:
        """A message from its bytes; bytes that are none end the call."""
        stream = self.stream
        assert stream is not None
        try:
            return deserialize(payload)
        except Exception as error:
            message = f"{self.path}: a reply of {len(payload)} bytes from {stream.peer} cannot be parsed: {error}"
            problem = Status(StatusCode.INTERNAL, message)
            stream.refuse(problem)  # also where the server has said OK: the call counts as failed
            stream.cancel()
            raise self._error(problem) from error

    async def failure(self, status: Status) -> RpcError:
        """The exception for that status, after a checkpoint: a caller that tries again at once starves nobody."""
        await trio.lowlevel.checkpoint()
        scope = trio.current_effective_deadline()
        if status.code is StatusCode.DEADLINE_EXCEEDED and scope < min(self._deadline, trio.current_time() + _GRACE):
            # The caller's own scope is about to end the call; that is what its code expects.
            await trio.sleep_until(scope + _GRACE)
        return self._error(status)

    # -- the end

    def _release(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.let_go()

    def finish(self) -> None:
        """Let go of everything: stream, cluster, trackers, and the session's gate."""
        stream = self.stream
        if stream is not None:
            stream.cancel()
            if stream.status is not None and stream.status.ok:
                self._state.calls_succeeded += 1
        if self._trackers or self._seen is not None:
            self._end_attempt()
        if self._kept is not None:
            self._release()
        if self.hedges is not None:
            self.hedges.stop()
        self._state.rpcs.discard(self)
        if self._first and self._session is not None:
            self._session.over()
        if self._watch is not None:
            watch, self._watch = self._watch, None
            watch.end(self.stream)

    def __repr__(self) -> str:
        return f"<Rpc {self.path}: {self.stream or self._waiting_for}>"


def _deadline(now: float, timeout: object) -> float:
    if not isinstance(timeout, int | float) or timeout != timeout:
        raise TypeError(f"timeout is a number of seconds or None, not {timeout!r}")
    return now + timeout
