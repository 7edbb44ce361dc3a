"""trxds as the client under test of connectconformance: it reads calls to make, and writes what came of each.

A ClientCompatRequest on stdin describes a call, a ClientCompatResponse on stdout says how it went. Each call has a
channel of its own, and several are under way at a time.
"""

from __future__ import annotations

import base64
import ssl
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

sys.path.insert(0, str(Path(__file__).parents[1]))  # for tests/support

from support.conformance_protos import conformance_protos, read_message, write_message

import trxds

PROTOS = conformance_protos()
CALLS_AT_A_TIME = 8

COMPRESSIONS = {1: "identity", 2: "gzip", 5: "deflate"}  # by their numbers in the enum Compression
FULL_DUPLEX = 5  # of the enum StreamType, as all below
CLIENT_STREAMING = {2, 4, FULL_DUPLEX}
SERVER_STREAMING = {3, 4, FULL_DUPLEX}


async def main() -> None:
    limiter = trio.CapacityLimiter(CALLS_AT_A_TIME)

    async def answer(request: Any) -> None:
        async with limiter:
            write_message(sys.stdout.buffer, await response_to(request))

    async with trio.open_nursery() as nursery:
        while request := await trio.to_thread.run_sync(read_message, sys.stdin.buffer, PROTOS.ClientCompatRequest):
            nursery.start_soon(answer, request)


async def response_to(request: Any) -> Any:
    response = PROTOS.ClientCompatResponse(test_name=request.test_name)
    try:
        response.response.CopyFrom(await Case(request).run())
    except Exception as error:  # the call could not be made: connectconformance shows the text, and goes on
        response.error.message = f"{type(error).__name__}: {error}"
    return response


class Case:
    """One call, and what its caller has seen of it."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self.messages = [PROTOS.message_for(each) for each in request.request_messages]
        self.result = PROTOS.ClientResponseResult(num_unsent_requests=len(self.messages))
        self.scope = trio.CancelScope()

    async def run(self) -> Any:
        request = self.request
        target = f"dns:///{request.host}:{request.port}"
        async with trxds.open_channel(target, interceptors=[self.observe], **channel_options(request)) as channel:
            descriptor = PROTOS.service.methods_by_name[request.method]
            method = channel.method(
                f"/{request.service}/{request.method}",
                getattr(PROTOS, descriptor.input_type.name),
                getattr(PROTOS, descriptor.output_type.name),
                client_streaming=request.stream_type in CLIENT_STREAMING,
                server_streaming=request.stream_type in SERVER_STREAMING,
            )
            options = {"metadata": list(metadata_of(request.request_headers)), "timeout": self.timeout}
            with self.scope:
                try:
                    await self.call(method, options)
                except trxds.RpcError as error:
                    self.result.error.CopyFrom(described(error.status))
                    self.note_metadata(error.initial_metadata, error.trailing_metadata)
            if self.scope.cancelled_caught:
                self.result.error.code = trxds.StatusCode.CANCELLED
        return self.result

    @property
    def timeout(self) -> float | None:
        return self.request.timeout_ms / 1000 if self.request.HasField("timeout_ms") else None

    @asynccontextmanager
    async def observe(self, call: trxds.CallDetails, next: trxds.Next) -> AsyncIterator[trxds.CallProtocol[Any, Any]]:
        """Note the metadata of a call that has one reply as well: whoever awaits that reply is given nothing else."""
        async with next(call) as stream:
            try:
                yield stream
            finally:
                self.note_metadata(stream.initial_metadata or (), stream.trailing_metadata)

    # -- the call

    async def call(self, method: trxds.Method[Any, Any], options: dict[str, Any]) -> None:
        match self.request.stream_type in CLIENT_STREAMING, self.request.stream_type in SERVER_STREAMING:
            case False, False:
                self.cancel_after_sending()
                self.note_sent()
                self.note_reply(await method(self.messages[0], **options))
            case True, False:
                self.note_reply(await method(self.requests(), **options))
            case False, True:
                async with method.open(self.messages[0], **options) as call:
                    self.note_sent()
                    self.cancel_after_sending()
                    await self.receive_all(call)
            case True, True:
                async with method.open(**options) as call:
                    await self.converse(call)
                    call.done_sending()
                    self.cancel_after_sending()
                    await self.receive_all(call)

    async def requests(self) -> AsyncIterator[Any]:
        """Each request in its time; the call's end, if its caller is to cancel it, comes with the last."""
        for message in self.messages:
            await trio.sleep(self.request.request_delay_ms / 1000)
            yield message
            self.note_sent()
        self.cancel_before_done()
        await trio.lowlevel.checkpoint()
        self.cancel_after_sending()

    async def converse(self, call: trxds.Call[Any, Any]) -> None:
        for message in self.messages:
            await trio.sleep(self.request.request_delay_ms / 1000)
            if not await call.send(message):
                break
            self.note_sent()
            if self.request.stream_type == FULL_DUPLEX:
                reply = await call.receive()
                if reply is None:
                    break
                self.note_reply(reply)
        self.cancel_before_done()
        await trio.lowlevel.checkpoint()

    async def receive_all(self, call: trxds.Call[Any, Any]) -> None:
        async for reply in call:
            self.note_reply(reply)

    # -- its caller cancels it

    def cancel_before_done(self) -> None:
        if self.request.cancel.HasField("before_close_send"):
            self.scope.cancel()

    def cancel_after_sending(self) -> None:
        if not self.request.HasField("cancel"):
            return
        if self.request.cancel.WhichOneof("cancel_timing") in (None, "after_close_send_ms"):
            self.scope.deadline = trio.current_time() + self.request.cancel.after_close_send_ms / 1000

    # -- what is seen of it

    def note_sent(self) -> None:
        self.result.num_unsent_requests -= 1

    def note_reply(self, reply: Any) -> None:
        self.result.payloads.append(reply.payload)
        if len(self.result.payloads) == self.request.cancel.after_num_responses:
            self.scope.cancel()

    def note_metadata(self, initial: Iterable[Any], trailing: Iterable[Any]) -> None:
        for pairs, headers in ((initial, self.result.response_headers), (trailing, self.result.response_trailers)):
            del headers[:]
            headers.extend(headers_of(pairs))


def channel_options(request: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"compression": COMPRESSIONS[request.compression]}
    if request.message_receive_limit:
        options["max_receive_size"] = request.message_receive_limit
    if request.server_tls_cert:
        options["credentials"] = trxds.tls(tls_context(request))
    return options


def tls_context(request: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=request.server_tls_cert.decode())
    if request.HasField("client_tls_creds"):
        with tempfile.NamedTemporaryFile() as file:  # the ssl module takes these from files only
            file.write(request.client_tls_creds.cert + b"\n" + request.client_tls_creds.key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def metadata_of(headers: Iterable[Any]) -> Iterable[tuple[str, str | bytes]]:
    """Connectconformance writes binary values in base64, usually without padding."""
    for header in headers:
        for value in header.value:
            binary = header.name.lower().endswith("-bin")
            yield header.name, base64.b64decode(value + "==") if binary else value


def headers_of(metadata: Iterable[tuple[str, str | bytes]]) -> Iterable[Any]:
    values = defaultdict(list)
    for name, value in metadata:
        values[name].append(value if isinstance(value, str) else base64.b64encode(value).decode().rstrip("="))
    return [PROTOS.Header(name=name, value=texts) for name, texts in values.items()]


def described(status: trxds.Status) -> Any:
    error = PROTOS.Error(code=status.code, message=status.message)
    for detail in getattr(status.rich, "details", ()):
        error.details.add(type_url=detail.type_url, value=detail.value)
    return error


if __name__ == "__main__":
    trio.run(main)
