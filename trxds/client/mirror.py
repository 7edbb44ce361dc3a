"""One copy of a call, on its way to the cluster of a mirror policy."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

import trio
from msgspec import Struct

from trxds.core.lifetime import Hold
from trxds.core.status import RpcError, Status, StatusCode, unavailable
from trxds.transport.client_stream import ClientStream

from .attempt import Attempt
from .call_scope import CallScope
from .dataplane import DataPlane, LiveDataPlane

_log = logging.getLogger("trxds.client")

_IDLE = unavailable("the channel is IDLE, and a copy is no reason to connect")


class MirrorOwner(Protocol):
    """The channel's copies, which count those under way and the bytes that they hold."""

    @property
    def is_closed(self) -> bool:
        """Whether the channel has closed."""

    def hold(self, size: int) -> bool:
        """Count bytes of a request; False if there is no room for them."""

    def release(self, size: int) -> None:
        """Count bytes no longer."""

    def ended(self, mirror: Mirror, result: str, status: Status | None) -> None:
        """Count a copy no longer, and report its result; none if the channel has closed."""


class MirrorPlane:
    """The data plane as copies see it: one that waits ends when the channel becomes IDLE, and does not wake it."""

    def __init__(self, live: LiveDataPlane) -> None:
        self._live = live

    @property
    def current(self) -> DataPlane:
        """Return the data plane in force; raises `RpcError` while the channel is IDLE."""
        current = self._live.current
        if current is None:
            raise RpcError(_IDLE)
        return current

    async def wait_for_change(self, plane: DataPlane) -> DataPlane:
        """Wait until the data plane is not `plane`; raises `RpcError` if there is none then."""
        await self._live.wait_for_news(plane)
        return self.current


class MirrorChannel(Struct, frozen=True):
    """The channel as copies with one `:authority` see it."""

    authority: str
    now: Callable[[], float]
    data_plane: MirrorPlane


class Mirror:
    """One copy of a call: one attempt, in a task of its own. `size` is the number of bytes that it holds.

    A streaming call hands over its messages by `send` and `end`, and leaves by `leave`. All three are synchronous, so
    the call never waits for its copy.
    """

    __slots__ = ("_attempt", "_has_all", "_hold", "_more", "_owner", "_queue", "_reason", "_scope", "cluster", "size")

    def __init__(self, owner: MirrorOwner, attempt: Attempt, scope: CallScope, hold: Hold) -> None:
        self.cluster = attempt.args.cluster
        self.size = len(attempt.request) if isinstance(attempt.request, bytes) else 0
        self._owner = owner
        self._attempt = attempt
        self._scope = scope
        self._hold = hold  # on the cluster
        self._reason = ""  # why it ends early
        self._has_all = isinstance(attempt.request, bytes)  # nothing more of the request will come
        self._queue: deque[bytes] = deque()
        self._more = trio.lowlevel.ParkingLot()

    @property
    def path(self) -> str:
        """Return the call's path."""
        return self._scope.path

    # -- the call's side

    def send(self, message: bytes) -> None:
        """Copy one more message; without room for it the copy ends."""
        if self._reason or self._has_all:
            return
        if not self._owner.hold(len(message)):
            self._end_early("too_large")
            return
        self.size += len(message)
        self._queue.append(message)
        self._more.unpark_all()

    def end(self) -> None:
        """The call sends nothing more. Idempotent."""
        self._has_all = True
        self._more.unpark_all()

    def leave(self) -> None:
        """The call is over. A copy of half a request is of no use; one that has all of it goes on by itself."""
        # Envoy too cancels a shadow request that is not complete, and lets any other go on.
        if not self._has_all:
            self._end_early("call_ended")

    def _end_early(self, reason: str) -> None:
        if not self._reason:
            self._reason = reason
            self._scope.cancel(f"the copy of the call ends: {reason}")

    # -- its task

    async def run(self) -> None:
        """Make the copy, and drop what comes back; never raises but by cancellation."""
        result, status = "", None
        try:
            result, status = await self._run()
        except RpcError as error:
            if not self._owner.is_closed:
                late = error.status.code is StatusCode.DEADLINE_EXCEEDED
                result = self._reason or ("timeout" if late else "not_sent")
                status = None if self._reason else error.status
        except Exception:
            # A copy must not harm the channel. When the channel closes, it ends with any other error.
            if not self._owner.is_closed:
                result = "not_sent"
                _log.exception("a copy of the call to %s raised; please report it", self.path)
        finally:
            self._attempt.cancel()
            self._hold.release()
            # From here on `send` holds no bytes, which nobody would release.
            self._reason = self._reason or "over"
            self._owner.ended(self, result, status)

    async def _run(self) -> tuple[str, Status | None]:
        # The call may have ended before this task began, when there was no wait to cancel.
        if self._reason:
            return self._reason, None
        failed = await self._attempt.start(self._scope, _ignore_headers)
        if failed is not None:
            return "not_sent", failed.status
        stream = self._attempt.stream
        assert stream is not None
        self._scope.waiting_for = "the response to a copy"
        await self._scope.run_with_deadline(lambda: self._exchange(stream))
        return "completed", stream.status

    async def _exchange(self, stream: ClientStream) -> None:
        if isinstance(self._attempt.request, bytes):
            await self._drop_replies(stream)
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_all, stream, name=f"mirror/{self.path}/send")
            await self._drop_replies(stream)
            nursery.cancel_scope.cancel(reason="the host has ended the copy")

    async def _drop_replies(self, stream: ClientStream) -> None:
        if self._attempt.settings.one_reply:
            await stream.receive_unary()
        else:
            while await stream.receive() is not None:
                pass

    async def _send_all(self, stream: ClientStream) -> None:
        while not self._has_all or self._queue:
            if not self._queue:
                await self._more.park()
                continue
            message = self._queue.popleft()
            if not await stream.send(message):
                return
            # Counted until windows and buffer have taken it: a slow host must not gather messages here.
            self.size -= len(message)
            self._owner.release(len(message))
        stream.end()

    def __repr__(self) -> str:
        return f"<Mirror {self.path} to {self.cluster}: {self._attempt.stream or self._reason or 'no host yet'}>"


def _ignore_headers() -> None:
    """The response begins; nothing of it counts."""
