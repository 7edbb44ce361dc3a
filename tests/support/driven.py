"""Clients that obey the same commands: ours, and those of others in processes of their own.

They are grpcio's (`peers/grpcio_driven.py`), grpc-go's (`peers/go/client`) and grpc-java's (`peers/java`).

An outcome is a code, the reply or the details, and the values of `set-cookie`.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol, TypeAlias

import trio

import trxds

Outcome: TypeAlias = Sequence[Any]
Metadata: TypeAlias = list[tuple[str, str]]
Calls: TypeAlias = list[tuple[str, Metadata, int]]  # path, metadata, how many

PENDING: Outcome = ["PENDING", "", []]


class Driven(Protocol):
    """A client with one channel."""

    async def calls(self, calls: Calls, timeout: float) -> list[list[Outcome]]:
        """Make unary calls, one after the other."""

    async def wait(self, name: str, path: str, deadline: float | None) -> object:
        """Begin a call that waits for ready."""

    async def waited(self, name: str, timeout: float) -> Outcome:
        """Return what came of it; PENDING if nothing did."""

    async def forget(self, name: str) -> object:
        """Cancel it."""

    async def open(self, name: str, path: str, timeout: float) -> Outcome:
        """Open a stream, send a message and return the reply."""

    async def talk(self, name: str, timeout: float) -> Outcome:
        """Send another message there and return the reply."""

    async def shut(self, name: str) -> object:
        """Cancel the stream."""


class OurClient:
    """Ours. Its calls run in `nursery`."""

    def __init__(self, channel: trxds.Channel, nursery: trio.Nursery) -> None:
        self._channel = channel
        self._nursery = nursery
        self._waiting: dict[str, Background] = {}
        self._streams: dict[str, Background] = {}

    async def calls(self, calls: Calls, timeout: float) -> list[list[Outcome]]:
        return [
            [await self._outcome(path, metadata, timeout=timeout) for _ in range(times)]
            for path, metadata, times in calls
        ]

    async def _outcome(self, path: str, metadata: Metadata, **options: Any) -> Outcome:
        try:
            async with self._channel.method(path).open(b"x", metadata=metadata, **options) as call:
                reply = await call.receive()
                initial = await call.wait_initial_metadata()
        except trxds.RpcError as error:
            return _failed(error)
        assert reply is not None
        return ["OK", reply.decode(), [value for key, value in initial if key == "set-cookie"]]

    async def wait(self, name: str, path: str, deadline: float | None) -> None:
        waiting = self._waiting[name] = Background()

        async def run() -> None:
            waiting.replies.send_nowait(await self._outcome(path, [], wait_for_ready=True, timeout=deadline))

        self._nursery.start_soon(waiting.run, run)

    async def waited(self, name: str, timeout: float) -> Outcome:
        return await self._waiting[name].reply(timeout)

    async def forget(self, name: str) -> None:
        self._waiting.pop(name).scope.cancel()

    async def open(self, name: str, path: str, timeout: float) -> Outcome:
        stream = self._streams[name] = Background()
        self._nursery.start_soon(stream.run, partial(self._stream, path, stream))
        return await self.talk(name, timeout)

    async def _stream(self, path: str, stream: Background) -> None:
        method = self._channel.method(path, client_streaming=True, server_streaming=True)
        try:
            async with method.open() as call, trio.open_nursery() as nursery:
                nursery.start_soon(_send, call, stream.requests)
                end = await _receive(call, stream)
                nursery.cancel_scope.cancel()
        except trxds.RpcError as error:
            end = _failed(error)
        stream.replies.send_nowait(end)

    async def talk(self, name: str, timeout: float) -> Outcome:
        stream = self._streams[name]
        stream.to_send.send_nowait(b"x")
        return await stream.reply(timeout)

    async def shut(self, name: str) -> None:
        self._streams.pop(name).scope.cancel()


class Background:
    """A call under way: the requests to send, and what came of it."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.to_send, self.requests = trio.open_memory_channel[bytes](math.inf)
        self.replies, self._received = trio.open_memory_channel[Outcome](math.inf)

    async def run(self, call: Any) -> None:
        with self.scope:
            await call()

    async def reply(self, timeout: float) -> Outcome:
        with trio.move_on_after(timeout):
            return await self._received.receive()
        return PENDING


async def _send(call: Any, requests: Any) -> None:
    try:
        async for request in requests:
            await call.send(request)
    except trxds.RpcError:
        pass  # the receiver gets it too


async def _receive(call: Any, stream: Background) -> Outcome:
    try:
        async for reply in call:
            stream.replies.send_nowait(["OK", reply.decode(), []])
    except trxds.RpcError as error:
        return _failed(error)
    return ["OVER", "", []]


def _failed(error: trxds.RpcError) -> Outcome:
    return [error.status.code.name, error.status.message, []]


class Program:
    """A client of another project: each method is a command of its program."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._rest = b""

    def __getattr__(self, operation: str) -> Any:
        return partial(self.ask, operation)

    async def ask(self, operation: str, *arguments: Any) -> Any:
        process = self._process
        assert process.stdin and process.stdout
        await process.stdin.send_all(json.dumps([operation, *arguments]).encode() + b"\n")
        while b"\n" not in self._rest:
            received = await process.stdout.receive_some()
            if not received:
                raise RuntimeError(f"it has ended with {await process.wait()}")
            self._rest += received
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)


@asynccontextmanager
async def running(command: Sequence[str], **environ: str) -> AsyncIterator[Program]:
    """The program that obeys, until the end of the block."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}  # it logs each mistake
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, command, check=False, env={**os.environ, **environ}, **pipes)
        process = await nursery.start(start)
        yield Program(process)
        process.kill()  # SIGTERM alone would be a warning, and so an error, after five seconds
