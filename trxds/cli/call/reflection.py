"""The schema of a server that has reflection, `grpc.reflection.v1` or v1alpha; the call's own channel asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

import trxds
from trxds import RpcError, StatusCode
from trxds.cli.exit_codes import FAILURE, UNREACHABLE
from trxds.server.protos import REFLECTION_PATHS, ReflectionRequest, ReflectionResponse

from .printable import printable
from .schema import CallError, add_files, bundled_file, find_symbol, new_pool

T = TypeVar("T")

MAX_FILES = 10_000  # that one symbol may need; a server that names ever more of them would never end
MAX_BYTES = 64 * 1024 * 1024
REMEDY = "give the types by --proto FILE or --descriptor-set FILE"

Exchange = trxds.Call[Any, Any]


class ReflectionFailedError(CallError):
    """A call of `path`, server reflection, has failed."""

    def __init__(self, error: RpcError, path: str) -> None:
        super().__init__(f"server reflection failed: {printable(str(error))}", FAILURE if error.peer else UNREACHABLE)
        self.error = error
        self.path = path


class ReflectionSchema:
    """What the server describes of itself. Each question and its follow-ups go over one stream, so to one host.

    `metadata` goes with each question, because routes and servers may want it; `timeout` in seconds is for each stream.
    """

    def __init__(
        self,
        channel: trxds.Channel,
        metadata: Iterable[tuple[str, str | bytes]],
        timeout: float,
        wait_for_ready: bool | None = None,
    ) -> None:
        self.pool = new_pool()
        self._channel = channel
        self._metadata = tuple(metadata)
        self._timeout = timeout
        self._wait_for_ready = wait_for_ready
        self._paths = REFLECTION_PATHS

    async def services(self) -> list[str]:
        """Return the services, without those of reflection itself. Raises `CallError`."""
        response = await self._ask(partial(_exchange, list_services="*"))
        names = {each.name for each in response.list_services_response.service}
        return sorted(names - {path.split("/")[1] for path in REFLECTION_PATHS})

    async def load(self, symbol: str) -> bool:
        """Ask for the file of a symbol, and for what it imports. Raises `CallError`."""
        if find_symbol(self.pool, symbol) is not None:
            return True
        try:
            await self._ask(partial(self._load, symbol))
        except _NotFoundError:
            return False
        return find_symbol(self.pool, symbol) is not None

    async def _load(self, symbol: str, call: Exchange) -> None:
        files = _files(await _exchange(call, file_containing_symbol=symbol))
        size = sum(file.ByteSize() for file in files.values())
        asked: set[str] = set()
        while missing := {name for file in files.values() for name in file.dependency} - files.keys() - asked:
            for name in missing:
                asked.add(name)
                if len(asked) > MAX_FILES or len(files) > MAX_FILES or size > MAX_BYTES:
                    limits = f"{MAX_FILES:,} files or {MAX_BYTES:,} bytes"
                    raise CallError(f"server reflection: {symbol} needs more than {limits}; {REMEDY}")
                try:
                    # Servers may send what a file imports with it, or not.
                    found = _files(await _exchange(call, file_by_filename=name))
                except _NotFoundError:
                    bundled = bundled_file(name)
                    found = {name: bundled} if bundled is not None else {}
                size += sum(file.ByteSize() for file in found.values())
                files = found | files
        try:
            add_files(self.pool, files)
        except CallError as error:
            raise CallError(f"server reflection: {printable(str(error))}; {REMEDY}") from None

    async def _ask(self, use: Callable[[Exchange], Awaitable[T]]) -> T:
        """Use a stream of the newest version that the server has."""
        for path in self._paths:
            method = self._channel.method(
                path, ReflectionRequest, ReflectionResponse, client_streaming=True, server_streaming=True
            )
            try:
                opened = method.open(
                    timeout=self._timeout, metadata=self._metadata, wait_for_ready=self._wait_for_ready
                )
                async with opened as call:
                    answer = await use(call)
            except RpcError as error:
                if error.status.code is not StatusCode.UNIMPLEMENTED:
                    raise ReflectionFailedError(error, path) from None
                peer = error.peer
                continue
            self._paths = (path,)
            return answer
        raise CallError(f"host {peer} has no server reflection, neither v1 nor v1alpha; {REMEDY}")


class _NotFoundError(Exception):
    """The server knows no such symbol or file."""


async def _exchange(call: Exchange, **question: str) -> Any:
    await call.send(ReflectionRequest(**question))
    response = await call.receive()
    if response is None:
        raise CallError(f"server reflection ended without an answer; {REMEDY}")
    if response.HasField("error_response"):
        error = response.error_response
        if error.error_code == StatusCode.NOT_FOUND:
            raise _NotFoundError
        text = f"{_code_name(error.error_code)}: {printable(error.error_message)}"
        raise CallError(f"server reflection refuses {', '.join(question.values())}: {text}; {REMEDY}")
    return response


def _code_name(code: int) -> str:
    try:
        return StatusCode(code).name
    except ValueError:
        return f"code {code}"


def _files(response: Any) -> dict[str, FileDescriptorProto]:
    try:
        files = map(FileDescriptorProto.FromString, response.file_descriptor_response.file_descriptor_proto)
        return {file.name: file for file in files}
    except DecodeError:
        raise CallError(f"server reflection sent bytes that are no file descriptor; {REMEDY}") from None
