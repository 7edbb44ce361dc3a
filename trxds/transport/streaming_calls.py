"""Calls that stream messages use these functions of a `ClientStream`, and `listen` is for the channel's own streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trxds.core.status import Status

from .client_stream import ClientStream


def takes_messages_now(stream: ClientStream) -> bool:
    """Return whether the stream takes messages, and none waits for windows or buffer. Any thread may call it."""
    outgoing = stream.outgoing
    return stream.status is None and outgoing is not None and outgoing.is_open and not outgoing.waits_for_room


async def send_together(stream: ClientStream, messages: Sequence[bytes]) -> bool:
    """Send messages of bounded size in one piece; as `send`, but a checkpoint only if it waits for room."""
    outgoing = stream.outgoing
    if outgoing is None:
        return False
    if outgoing.waits_for_room:
        await outgoing.wait_taken()
    if not stream.send_many(messages):
        return False
    if outgoing.waits_for_room:
        await outgoing.wait_taken()
    return not outgoing.was_cut


def has_message(stream: ClientStream) -> bool:
    """Return whether a complete message waits."""
    return stream.incoming is not None and bool(stream.incoming.deframer.messages)


async def wait_message(stream: ClientStream) -> bool:
    """Wait for a message; False if no more will come. Always a checkpoint."""
    await (stream.incoming or stream.make_incoming()).wait()
    return has_message(stream)


async def listen(stream: ClientStream, request: bytes, on_reply: Callable[[bytes], None]) -> Status | None:
    """Send the only message of a new stream, which is the channel's own, and pass each reply to `on_reply`.

    Return the status of the call.
    """
    stream.connection.http2.counts.own_streams += 1
    try:
        await stream.send(request, end=True)
        while (reply := await stream.receive()) is not None:
            on_reply(reply)
        return stream.status
    finally:
        stream.cancel()
