"""trxds as a peer of the conformance harness: JSON lines in, JSON lines out.

The harness (`make conformance`) writes one command a line: an object with `id`, `op` and the fields of that op. Each
gets one answer with its `id`, in any order. A command that cannot be obeyed gets `{"error": ...}`. An RPC that fails
has a result like any other: `code`, `details`, `initial`, `trailing`, `messages`, and `elapsed` in seconds.

* `init` (`bootstrap`, `env`) comes first; `open` and `close` are of a `channel`; `quit` is the end.
* `rpc` makes `count` RPCs of a `method` and a `kind`, so many at a time; `load_start` makes them until `load_stop`.
* `stream_open` leaves one open for `stream_send`, `_recv`, `_initial`, `_half_close` and `_cancel`.

Commands run concurrently, each in a task of its own; a channel, a load and a stream are tasks that live from their
opening to their closing command. Messages travel as the raw bytes of JSON text, and an absent one has no bytes.
"""

from __future__ import annotations

import base64
import json
import math
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import trio

if TYPE_CHECKING:  # `init` sets the environment before anything is loaded
    import trxds

JSON: TypeAlias = dict[str, Any]

KINDS = {  # kind: (client_streaming, server_streaming)
    "unary": (False, False),
    "server_stream": (False, True),
    "client_stream": (True, False),
    "bidi": (True, True),
}


# -- values on both sides of the pipe


def encode(message: object) -> bytes:
    return b"" if message is None else json.dumps(message).encode()


def metadata_in(pairs: Iterable[tuple[str, Any]] | None) -> list[tuple[str, str | bytes]]:
    return [(key, base64.b64decode(value["b64"]) if isinstance(value, dict) else value) for key, value in pairs or ()]


def metadata_out(pairs: Iterable[tuple[str, str | bytes]] | None) -> list[tuple[str, object]]:
    return [
        (key, {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value)
        for key, value in pairs or ()
    ]


def call_options(command: JSON) -> JSON:
    """The keyword arguments of a call; an absent deadline is none."""
    return {
        "metadata": metadata_in(command.get("metadata")),
        "timeout": command.get("deadline"),
        "wait_for_ready": command.get("wait_for_ready", False),
    }


@dataclass
class Outcome:
    """How one RPC went, as far as it got."""

    started: float = field(default_factory=trio.current_time)
    messages: list[object] = field(default_factory=list)
    code: str = "OK"
    details: str = ""
    initial: Iterable[tuple[str, str | bytes]] = ()
    trailing: Iterable[tuple[str, str | bytes]] = ()

    def failed(self, error: trxds.RpcError) -> None:
        self.code, self.details = error.status.code.name, error.status.message
        self.initial, self.trailing = error.initial_metadata, error.trailing_metadata

    def ended(self, call: trxds.Call[bytes, bytes]) -> None:
        self.initial, self.trailing = call.initial_metadata or (), call.trailing_metadata or ()

    def cancelled(self) -> None:
        self.code, self.details = "CANCELLED", "cancelled by the driver"

    def as_json(self) -> JSON:
        return {
            "code": self.code,
            "details": self.details,
            "initial": metadata_out(self.initial),
            "trailing": metadata_out(self.trailing),
            "messages": self.messages,
            "elapsed": trio.current_time() - self.started,
        }


# -- RPCs


def method_of(channel: trxds.Channel, path: str, kind: str) -> trxds.Method[bytes, bytes]:
    client_streaming, server_streaming = KINDS[kind]
    return channel.method(path, None, None, client_streaming=client_streaming, server_streaming=server_streaming)


async def one_rpc(channel: trxds.Channel, command: JSON) -> JSON:
    """Play one RPC to its end; a failed one is a result too."""
    from trxds import RpcError

    kind = command.get("kind", "unary")
    method = method_of(channel, command.get("method", "/oracle.Echo/Unary"), kind)
    requests = [encode(message) for message in command.get("messages", [None])]
    opening = requests[:1] if kind in ("unary", "server_stream") else []
    outcome = Outcome()
    try:
        async with method.open(*opening, **call_options(command)) as call:
            for request in requests[len(opening) :]:
                await call.send(request)
            call.done_sending()
            async for reply in call:
                outcome.messages.append(json.loads(reply))
            outcome.ended(call)
    except RpcError as error:
        outcome.failed(error)
    return outcome.as_json()


async def many_rpcs(channel: trxds.Channel, command: JSON) -> list[JSON]:
    """`count` RPCs, `concurrency` of them at once."""
    count = command.get("count", 1)
    results: list[JSON] = [{}] * count
    turns = iter(range(count))

    async def work() -> None:
        for turn in turns:
            results[turn] = await one_rpc(channel, command)

    async with trio.open_nursery() as nursery:
        for _ in range(min(count, command.get("concurrency", 1))):
            nursery.start_soon(work)
    return results


class Load:
    """RPC after RPC, with a pause, by several workers, until told to stop."""

    def __init__(self) -> None:
        self.results: list[JSON] = []
        self.stopping = trio.Event()
        self.finished = trio.Event()

    async def run(self, channel: trxds.Channel, command: JSON) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(command.get("concurrency", 1)):
                nursery.start_soon(self.work, channel, command)
        self.finished.set()

    async def work(self, channel: trxds.Channel, command: JSON) -> None:
        while not self.stopping.is_set():
            self.results.append(await one_rpc(channel, command))
            with trio.move_on_after(command.get("interval", 0.002)):
                await self.stopping.wait()


class Stream:
    """A bidi call left open: what is sent and what is received wait in queues between commands.

    The queues have no bound: a scenario sends a handful of messages, and a command must be answered
    at once even while the call still waits for a host.
    """

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.initial: JSON | None = None
        self.initial_known = trio.Event()
        self.to_send, self._requests = trio.open_memory_channel[bytes](math.inf)
        self._replies, self.received = trio.open_memory_channel[JSON](math.inf)

    async def run(self, channel: trxds.Channel, command: JSON) -> None:
        from trxds import RpcError

        method = method_of(channel, command.get("method", "/oracle.Echo/Bidi"), "bidi")
        outcome = Outcome()
        with self.scope:
            try:
                async with method.open(**call_options(command)) as call:
                    await self._converse(call)
                    outcome.ended(call)
            except RpcError as error:
                outcome.failed(error)
        if self.scope.cancelled_caught:
            outcome.cancelled()
        self._know_initial(outcome.initial)
        self._replies.send_nowait({"status": outcome.as_json()})

    async def _converse(self, call: trxds.Call[bytes, bytes]) -> None:
        """Send what is queued while receiving; over when the receiving is."""
        failure: list[trxds.RpcError] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, call)
            await self._receive(call, failure)
            nursery.cancel_scope.cancel()
        if failure:
            raise failure[0]

    async def _send(self, call: trxds.Call[bytes, bytes]) -> None:
        from trxds import RpcError

        try:
            async for request in self._requests:
                await call.send(request)
            call.done_sending()
        except RpcError:
            pass  # the receiving side meets the same end, and reports it

    async def _receive(self, call: trxds.Call[bytes, bytes], failure: list[trxds.RpcError]) -> None:
        from trxds import RpcError

        try:
            self._know_initial(await call.wait_initial_metadata())
            async for reply in call:
                self._replies.send_nowait({"message": json.loads(reply)})
        except RpcError as error:
            failure.append(error)

    def _know_initial(self, metadata: Iterable[tuple[str, str | bytes]] | None) -> None:
        if self.initial is None:
            self.initial = {"initial": metadata_out(metadata)}
            self.initial_known.set()


# -- commands


class Driver:
    """What the commands act on. A command is the method `op_<name>`, and its return value the answer."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.bootstrap: JSON = {}
        self.channels: dict[str, trxds.Channel] = {}
        self.closing: dict[str, trio.Event] = {}
        self.loads: dict[str, Load] = {}
        self.streams: dict[str, Stream] = {}

    async def obey(self, command: JSON) -> JSON:
        handler: Callable[[JSON], Awaitable[JSON]] | None = getattr(self, "op_" + command["op"], None)
        if handler is None:
            return {"error": f"unknown op {command['op']!r}"}
        try:
            return await handler(command)
        except Exception as error:  # a command that cannot be obeyed is answered, the driver goes on
            return {"error": repr(error)}

    async def op_init(self, command: JSON) -> JSON:
        os.environ.update(command.get("env") or {})
        self.bootstrap = command["bootstrap"]
        import trxds

        return {"ok": True, "version": f"trxds {trxds.__version__}"}

    async def op_open(self, command: JSON) -> JSON:
        await self.nursery.start(self._keep_open, command["channel"], command["target"])
        return {"ok": True}

    async def _keep_open(
        self, name: str, target: str, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        import trxds

        async with trxds.open_channel(target, bootstrap=self.bootstrap) as channel:
            self.channels[name] = channel
            self.closing[name] = trio.Event()
            task_status.started()
            await self.closing[name].wait()

    async def op_close(self, command: JSON) -> JSON:
        del self.channels[command["channel"]]
        self.closing.pop(command["channel"]).set()
        return {"ok": True}

    async def op_rpc(self, command: JSON) -> JSON:
        return {"results": await many_rpcs(self.channels[command["channel"]], command)}

    async def op_load_start(self, command: JSON) -> JSON:
        load = self.loads[command["load"]] = Load()
        self.nursery.start_soon(load.run, self.channels[command["channel"]], command)
        return {"ok": True}

    async def op_load_stop(self, command: JSON) -> JSON:
        load = self.loads.pop(command["load"])
        load.stopping.set()
        await load.finished.wait()
        return {"results": load.results}

    async def op_stream_open(self, command: JSON) -> JSON:
        stream = self.streams[command["stream"]] = Stream()
        self.nursery.start_soon(stream.run, self.channels[command["channel"]], command)
        return {"ok": True}

    async def op_stream_send(self, command: JSON) -> JSON:
        self.streams[command["stream"]].to_send.send_nowait(encode(command.get("message")))
        return {"ok": True}

    async def op_stream_recv(self, command: JSON) -> JSON:
        with trio.move_on_after(command.get("timeout", 5)):
            return await self.streams[command["stream"]].received.receive()
        return {"timeout": True}

    async def op_stream_initial(self, command: JSON) -> JSON:
        stream = self.streams[command["stream"]]
        await stream.initial_known.wait()
        assert stream.initial is not None
        return stream.initial

    async def op_stream_half_close(self, command: JSON) -> JSON:
        self.streams[command["stream"]].to_send.close()
        return {"ok": True}

    async def op_stream_cancel(self, command: JSON) -> JSON:
        self.streams[command["stream"]].scope.cancel()
        return {"ok": True}


# -- the pipe


async def lines_of(stream: trio.abc.ReceiveStream) -> AsyncGenerator[bytes, None]:
    """Whole lines, without their ends; the last may lack one."""
    rest = b""
    async for chunk in stream:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest


async def write_lines(answers: trio.MemoryReceiveChannel[JSON]) -> None:
    """The only writer of stdout, so that answers never mix."""
    stdout = trio.lowlevel.FdStream(os.dup(sys.__stdout__.fileno()))  # type: ignore[union-attr]
    async for answer in answers:
        await stdout.send_all(json.dumps(answer).encode() + b"\n")


async def main() -> None:
    send_answer, answers = trio.open_memory_channel[JSON](0)
    stdin = trio.lowlevel.FdStream(os.dup(sys.__stdin__.fileno()))  # type: ignore[union-attr]

    async def serve(command: JSON) -> None:
        await send_answer.send({**await driver.obey(command), "id": command["id"]})

    async with trio.open_nursery() as nursery, aclosing(lines_of(stdin)) as lines:
        driver = Driver(nursery)
        nursery.start_soon(write_lines, answers)
        async for line in lines:
            command = json.loads(line)
            if command["op"] == "quit":
                break
            nursery.start_soon(serve, command, name=command["op"])
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
