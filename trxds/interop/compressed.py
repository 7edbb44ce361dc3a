"""The cases that look at compression: an observer of the channel sees the server's flag, and the server sees ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from trxds.client.channel import Channel
from trxds.core.observe import AttemptObserver, CallObserver, CallStarted, Observer
from trxds.core.status import StatusCode

from .cases import LARGE_REPLY, expect, failure_of, large_request, service, zeros
from .protos import BoolValue, ResponseParameters, StreamingInputCallRequest, StreamingOutputCallRequest

_YES, _NO = BoolValue(value=True), BoolValue(value=False)


async def client_compressed_unary(channel: Channel) -> None:
    unary = service(channel).UnaryCall
    probe = await failure_of(lambda: unary(large_request(expect_compressed=_YES)), "the probe, uncompressed,")
    expect(probe.status.code, StatusCode.INVALID_ARGUMENT, "the status of the probe")
    for compression, wanted in (("gzip", _YES), ("deflate", _YES), ("identity", _NO)):
        reply = await unary(large_request(expect_compressed=wanted), compression=compression)
        expect(len(reply.payload.body), LARGE_REPLY, f"bytes in the reply to {compression}")


async def client_compressed_streaming(channel: Channel) -> None:
    streaming = service(channel).StreamingInputCall
    probe = await failure_of(lambda: streaming([_part(27182, _YES)]), "the probe, uncompressed,")
    expect(probe.status.code, StatusCode.INVALID_ARGUMENT, "the status of the probe")
    async with streaming.open(compression="gzip") as call:
        await call.send(_part(27182, _YES))
        await call.send(_part(45904, _NO), compress=False)
        call.done_sending()
        reply = await call.receive()
        expect(reply and reply.aggregated_payload_size, 73086, "aggregated_payload_size")
        expect(await call.receive(), None, "a second reply")


def _part(size: int, compressed: Any) -> Any:
    return StreamingInputCallRequest(payload=zeros(size), expect_compressed=compressed)


async def server_compressed_unary(channel: Channel) -> None:
    for wanted in (_YES, _NO):
        with watched(channel) as received:
            reply = await service(channel).UnaryCall(large_request(response_compressed=wanted))
        expect(len(reply.payload.body), LARGE_REPLY, "bytes in the reply")
        expect(received, [wanted.value], "whether the reply came compressed")


async def server_compressed_streaming(channel: Channel) -> None:
    wanted = {31415: _YES, 92653: _NO}
    parameters = [ResponseParameters(size=size, compressed=compressed) for size, compressed in wanted.items()]
    request = StreamingOutputCallRequest(response_parameters=parameters)
    with watched(channel) as received:
        async with service(channel).StreamingOutputCall.open(request) as call:
            expect([len(reply.payload.body) async for reply in call], list(wanted), "sizes of the replies")
    expect(received, [True, False], "which of the replies came compressed")


@dataclass
class MessageRecorder(AttemptObserver):
    """Records for each message that is received whether it was shorter on the wire."""

    compressed: list[bool] = field(default_factory=list)

    def received(self, size: int, wire_size: int) -> None:
        self.compressed.append(wire_size < size)


@dataclass(frozen=True)
class _Call(CallObserver):
    recorder: MessageRecorder

    def attempt(self, previous: int, transparent: bool) -> MessageRecorder:
        return self.recorder


@dataclass(frozen=True)
class _Channel(Observer):
    recorder: MessageRecorder

    def call(self, call: CallStarted) -> _Call:
        return _Call(self.recorder)


@contextmanager
def watched(channel: Channel) -> Iterator[list[bool]]:
    """Record the messages that are received in the block, and whether each was compressed."""
    recorder = MessageRecorder()
    with channel.observed_by(_Channel(recorder)):
        yield recorder.compressed
