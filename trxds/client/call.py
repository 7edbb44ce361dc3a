"""A `Call` is an open call as its user holds it: any of the four kinds, message by message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from trxds.core.metadata import EMPTY, Metadata
from trxds.core.status import CANCELLED, RpcError, Status
from trxds.transport.client_stream import ClientStream
from trxds.transport.streaming_calls import has_message, send_together, takes_messages_now, wait_message

from .call_protocol import ResponseStream
from .hedging import HedgingState
from .replay_buffer import ReplayBuffer
from .rpc import Rpc

Req = TypeVar("Req")
Res = TypeVar("Res")

# A step of the scheduler costs more than a message that has already arrived, so `receive` takes a full checkpoint only
# after this many messages or seconds, and tests for cancellation with each message.
_MAX_QUICK_RECEIVES = 64
_MAX_QUICK_TIME = 0.001


class Call(ResponseStream[Res], Generic[Req, Res]):
    """A call that `async with method.open(...)` opened. One task may send while another receives.

    Leaving the block resets the stream if it has not ended by then. Every method raises `RpcError` when the call has
    failed.
    """

    def __init__(
        self,
        rpc: Rpc,
        replay: ReplayBuffer,
        now: Callable[[], float],
        serialize: Callable[[Req], bytes],
        deserialize: Callable[[bytes], Res],
        one_request: bool = False,
        one_reply: bool = False,
    ) -> None:
        self._rpc = rpc
        self._replay = replay
        self._attempts = rpc.attempts
        self._one_request = one_request
        self._one_reply = one_reply
        self._now = now
        self._quick_receives = 0  # messages that `receive` may still take before its next full checkpoint
        self._checkpoint_due = 0.0  # the time by which that checkpoint is due
        self._note_checkpoint()
        self._serialize = serialize
        self._deserialize = deserialize

    async def send(self, request: Req, *, compress: bool = True) -> bool:
        """Send one message; wait while flow control or the socket's buffer has no room. Always a checkpoint.

        Returns False if the server has already ended the call with OK and reads nothing any more. With
        `compress=False` the message is sent uncompressed, whatever the call's compression. Raises
        `trio.ClosedResourceError` after `done_sending`, or after the one request of a method that takes one, which
        closes this side of the call.
        """
        return await self._send_serialized(self._serialize(request), compress)

    def done_sending(self) -> None:
        """Close this side of the call: no more messages follow. Synchronous and idempotent."""
        self._replay.ended = True
        for mirror in self._replay.mirrors:
            mirror.end()
        if self._rpc.hedging is not None:
            self._rpc.hedging.end()
        stream = self._stream
        # The replay of an attempt that is being opened half-closes its stream, behind the messages.
        if stream is not None and self._attempts.opening is None:
            stream.end()

    async def receive(self) -> Res | None:
        """Return the next message; None when the server has ended the call with OK.

        The one reply of a method that does not stream is returned when the status has arrived too; another number of
        replies is UNIMPLEMENTED (statuscodes.md). Always a checkpoint, with one exception: a message that has already
        arrived costs a check for cancellation, and a full checkpoint, which notices deadlines, only if the last one was
        64 messages or 1 ms ago.
        """
        rpc = self._rpc
        if rpc.hedging is not None:
            await self._wait_decided(rpc.hedging)
        # The only reply is taken with the status.
        stream = None if self._one_reply or rpc.attempt is None else rpc.attempt.stream
        payload = None
        # Without a message, the wait for one is the checkpoint.
        if stream is not None and has_message(stream):
            if self._quick_receives and self._now() < self._checkpoint_due:
                self._quick_receives -= 1
                await checkpoint_if_cancelled()
            else:
                # In the call's scope: its deadline ends the call even if all of its messages are here.
                await rpc.scope.wait_on_stream(checkpoint)
                self._note_checkpoint()
            payload = stream.receive_nowait()
        if payload is None:
            payload = await self._receive()
            self._note_checkpoint()
        if payload is not None:
            return rpc.parse(payload, self._deserialize, is_last=self._one_reply)
        status = rpc.final_status()
        if not status.ok:
            raise await rpc.failure(status)
        return None

    async def wait_initial_metadata(self) -> Metadata:
        """Wait for the server's initial metadata; empty for a trailers-only response. Always a checkpoint.

        It returns them after the call's end too, and raises `RpcError` if the call has ended without a response.
        """
        rpc, attempts = self._rpc, self._attempts
        if rpc.hedging is not None:
            await self._wait_decided(rpc.hedging)
        initial = self.initial_metadata
        if initial is not None:
            await checkpoint()
            return initial
        while rpc.scope.status is None:
            attempt, stream = await attempts.wait_open()
            await attempt.wait_response(stream.wait_headers, rpc.scope)
            if attempt.initial is not None:
                return attempt.initial
            if not await attempts.replace(attempt):
                break
        status = rpc.final_status()  # with which a trailers-only response has come
        initial = self.initial_metadata
        if initial is None and not status.ok:
            raise await rpc.failure(status)
        return initial or EMPTY  # of a call that was left, whose OK nobody had taken

    def cancel(self) -> bool:
        """End the call with CANCELLED; return False, and change nothing, if it has a `status` already.

        Every task that waits for the call, and each later `send` and `receive`, raises `RpcError`; messages that came
        before are dropped. The server gets a RST_STREAM. Synchronous and idempotent; any task may call it.
        """
        if self.status is not None:
            return False
        self._rpc.end_call(CANCELLED)
        return True

    @property
    def initial_metadata(self) -> Metadata | None:
        """Return the server's initial metadata; None until it has arrived, empty for a trailers-only response."""
        return self._rpc.attempt.initial if self._rpc.attempt is not None else None

    @property
    def trailing_metadata(self) -> Metadata:
        """Return the metadata that came with the status; empty before the call's end."""
        return self._rpc.attempt.trailing if self._rpc.attempt is not None else EMPTY

    @property
    def status(self) -> Status | None:
        """Return the call's status; None until its caller has learned of its end, or has ended it.

        The caller learns of it by a `receive` that returns None or the only reply, by an exception, and by a
        `wait_initial_metadata` that returns those of a trailers-only response; it ends the call by `cancel` and by
        leaving the block. The first status stays, and observers and filters get the same.
        """
        return self._rpc.scope.status

    @property
    def peer(self) -> str:
        """Return the address of the host that has the call; empty while there is none, or hedging uses several."""
        return self._rpc.attempt.peer if self._rpc.attempt is not None else ""

    # -- sending

    async def _send_serialized(self, serialized: bytes, compress: bool) -> bool:
        rpc = self._rpc
        if self._replay.ended:
            raise self._sending_has_ended()
        payload: bytes | Status = b""
        if rpc.scope.status is None:
            payload = rpc.route.outgoing(serialized, rpc.settings, compressed=compress)
        if isinstance(payload, Status):
            # It could not be sent in another attempt either. A task that receives learns the reason too.
            rpc.end_call(payload)
            raise await rpc.failure(payload)
        is_read = await self._send(payload)
        if self._one_request:
            self.done_sending()
        return is_read

    async def _send(self, *payloads: bytes, ahead: bool = False) -> bool:
        """Send one message, or with `ahead` any number of small ones."""
        status = self._rpc.scope.status
        if status is not None:
            # Without the call's scope: its deadline may have passed since, and its end stays what it was.
            if not status.ok:
                raise await self._rpc.failure(status)
            await checkpoint()
            return False
        if self._rpc.hedging is not None:
            if not self._rpc.hedging.decided.is_set():
                return await self._send_on_all(self._rpc.hedging, payloads)
            await self._wait_decided(self._rpc.hedging)
        attempts = self._attempts
        # Until the next attempt has replayed the buffer, or these messages would overtake those in it.
        # The backoff before that is not waited for: messages go into the buffer then.
        attempt = self._rpc.attempt
        stream = attempt.stream if attempt is not None else None
        if attempt is None or stream is None or attempts.opening is not None:
            attempt, stream = await attempts.wait_open()
        # What does not fit waits too: it commits the call to its attempt (A6), and this one may be over.
        if stream.status is not None and self._replay.overflows(payloads) and await attempts.replace(attempt):
            return await self._send(*payloads, ahead=ahead)
        # Before the send: if the stream fails meanwhile, the next attempt has to replay these messages too.
        for payload in payloads:
            self._replay.keep(payload)
        if not self._replay.dropped and attempts.is_committed:
            self._replay.drop()
        step = partial(send_together, stream, payloads) if ahead else partial(stream.send, *payloads)
        if await self._rpc.scope.wait_on_stream(step):
            return True
        if stream is not self._stream:
            return True  # the next attempt replays these messages too (A6)
        if stream.status is None:
            raise self._sending_has_ended()  # another task has called `done_sending` meanwhile
        # The task that receives may be about to make that attempt. If none does, this one finds out whether there is
        # another, or a call that only sends would not learn of its end until the buffer is full.
        if not attempts.is_committed and (attempts.retrying is not None or await attempts.replace(attempt)):
            return True
        assert stream.status is not None
        if not stream.status.ok:
            raise await self._rpc.failure(self._rpc.final_status())
        return False

    def _sending_has_ended(self) -> trio.ClosedResourceError:
        text = "nothing more can be sent: done_sending was called, or the method takes one request only"
        return trio.ClosedResourceError(f"{self._rpc.scope.path}: {text}")

    # -- hedging, receiving and the end

    @property
    def _stream(self) -> ClientStream | None:
        return self._rpc.attempt.stream if self._rpc.attempt is not None else None

    async def _send_on_all(self, hedging: HedgingState, payloads: Sequence[bytes]) -> bool:
        for payload in payloads:
            hedging.send(payload)
        if self._replay.is_full:
            # A6: a call that has sent more than can be buffered is committed.
            await self._rpc.scope.run_with_deadline(hedging.choose_any)
        await self._rpc.scope.wait_on_stream(checkpoint)
        return True

    async def _wait_decided(self, hedging: HedgingState) -> None:
        if not hedging.decided.is_set():
            await self._rpc.scope.run_with_deadline(hedging.decided.wait)
        if hedging.problem is not None:
            raise await self._rpc.failure(hedging.problem)

    async def _receive(self) -> bytes | None:
        if self._rpc.scope.status is not None:
            await checkpoint()
            return None
        while True:
            attempt = self._rpc.attempt
            stream = attempt.stream if attempt is not None else None
            if attempt is None or stream is None or self._attempts.opening is not None:
                attempt, stream = await self._attempts.wait_open()
            step = stream.receive_unary if self._one_reply else stream.receive
            payload = await attempt.wait_response(step, self._rpc.scope)
            if payload is not None or not await self._attempts.replace(attempt):
                return payload

    def _note_checkpoint(self) -> None:
        self._quick_receives, self._checkpoint_due = _MAX_QUICK_RECEIVES - 1, self._now() + _MAX_QUICK_TIME

    def __repr__(self) -> str:
        return f"<Call {self._rpc!r}>"


def has_arrived_message(call: Call[Any, Any]) -> bool:
    """Return whether a message waits to be received."""
    stream = call._stream
    return stream is not None and has_message(stream)


class CallSteps(Generic[Req, Res]):
    """The steps of a call's `send` and `receive`, which `trxds.portal` divides between Trio's thread and another."""

    def __init__(self, call: Call[Req, Res]) -> None:
        self._call = call

    @property
    def deadline(self) -> float:
        """The call's deadline, on Trio's clock."""
        return self._call._rpc.scope.deadline

    # -- in any thread

    def serialize(self, request: Req) -> bytes:
        """Return the message as bytes."""
        return self._call._serialize(request)

    def take_error(self, error: RpcError) -> RpcError:
        """Return what the other thread is to raise for an error that was handed over; the call has its status then."""
        scope = self._call._rpc.scope
        if scope.status is None:
            scope.status = error.status
        # Another one if a message cannot be parsed, and before anybody was told of that the call was cancelled.
        return error if error.status == scope.status else RpcError(scope.status, *error.args[1:])

    @property
    def can_send_now(self) -> bool:
        """Whether `send` would take another message now, without waiting for room.

        It may change at any moment, as everything that the server may end can.
        """
        call, stream = self._call, self._call._stream
        return (
            stream is not None
            and takes_messages_now(stream)
            and call._rpc.scope.status is None
            and not call._replay.ended
            and not call._one_request  # it closes this side, in Trio's thread
            and call._rpc.hedging is None
            and call._now() < self.deadline
        )

    def payload(self, serialized: bytes, *, compress: bool) -> bytes | None:
        """Return the message as the wire has it; None if `send` may refuse it."""
        rpc = self._call._rpc
        if not rpc.route.only_compresses(len(serialized), rpc.settings):
            return None
        payload = rpc.route.outgoing(serialized, rpc.settings, compressed=compress)
        return None if isinstance(payload, Status) else payload

    # -- in Trio's thread

    async def send(self, serialized: bytes, *, compress: bool) -> bool:
        """Send a message that `serialize` has returned; see `Call.send`."""
        return await self._call._send_serialized(serialized, compress)

    async def send_ahead(self, payloads: Sequence[bytes]) -> None:
        """Send small messages that `payload` has returned, in one piece; a checkpoint only if it waits."""
        await self._call._send(*payloads, ahead=True)

    def done_sending(self) -> None:
        """See `Call.done_sending`."""
        self._call.done_sending()

    async def wait_arrived(self) -> bool:
        """Wait for a message, also beyond the deadline; False if the stream has ended, whose end `receive` takes.

        Only after a `receive` that returned a message. Always a checkpoint.
        """
        call, stream = self._call, self._call._stream
        if stream is None or call._one_reply or call._rpc.scope.status is not None:
            await checkpoint()
            return False
        return await wait_message(stream)

    def receive_arrived(self) -> Iterator[tuple[Res, int]]:
        """Yield messages that have arrived, each with its size in bytes. Synchronous."""
        call, stream = self._call, self._call._stream
        before = call._rpc.scope.status
        while stream is not None and (payload := stream.receive_nowait()) is not None:
            try:
                message = call._rpc.parse(payload, call._deserialize)
            except RpcError:
                # The other thread takes the messages before it first, and gives the call its status by `take_error`.
                call._rpc.scope.status = before
                raise
            yield message, len(payload)
