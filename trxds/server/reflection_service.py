"""Server reflection: a server describes its services to tools such as grpcurl and `trxds call`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

from trxds.core.status import StatusCode

from .handlers import bidi_streaming
from .protos import REFLECTION_PATHS, REFLECTION_POOL, ReflectionRequest, ReflectionResponse
from .server_call import Call, Handler

FindFile: TypeAlias = Callable[[DescriptorPool, str], FileDescriptor]


def with_reflection(handlers: Mapping[str, Handler], pools: Iterable[DescriptorPool]) -> Mapping[str, Handler]:
    """Return these handlers, and those of server reflection (v1 and v1alpha), which describes all of them.

    `pools` have the files of the services; a service that no pool has is listed and not described.
    """
    names = sorted({path.split("/")[1] for path in (*handlers, *REFLECTION_PATHS)})
    reflection = ServerReflection(names, (*pools, REFLECTION_POOL))
    handler = bidi_streaming(reflection.answer, ReflectionRequest.FromString, ReflectionResponse.SerializeToString)
    return {**handlers, **dict.fromkeys(REFLECTION_PATHS, handler)}


class ServerReflection:
    """The service's only method. `services` are the names to list."""

    def __init__(self, services: Sequence[str], pools: Sequence[DescriptorPool]) -> None:
        self._services = services
        self._pools = pools

    async def answer(self, requests: AsyncIterator[Any], call: Call) -> AsyncGenerator[Any, None]:
        async for request in requests:
            response = ReflectionResponse(valid_host=request.host, original_request=request)
            self._fill(response, request)
            yield response

    def _fill(self, response: Any, request: Any) -> None:
        match request.WhichOneof("message_request"):
            case "list_services":
                for name in self._services:
                    response.list_services_response.service.add(name=name)
            case "file_by_filename":
                self._fill_file(response, _find_file, request.file_by_filename)
            case "file_containing_symbol":
                self._fill_file(response, _find_symbol, request.file_containing_symbol)
            case other:
                _fill_error(response, StatusCode.UNIMPLEMENTED, f"{other or 'an empty request'} has no answer here")

    def _fill_file(self, response: Any, find: FindFile, name: str) -> None:
        for pool in self._pools:
            try:
                file = find(pool, name)
            except KeyError:
                continue
            files: dict[str, FileDescriptor] = {}
            _add_with_imports(files, file)
            serialized = (each.serialized_pb for each in files.values())
            response.file_descriptor_response.file_descriptor_proto.extend(serialized)
            return
        _fill_error(response, StatusCode.NOT_FOUND, f"{name!r} is not known here")


def _find_file(pool: DescriptorPool, name: str) -> FileDescriptor:
    """Return the file of that name; `KeyError` if the pool has none."""
    return pool.FindFileByName(name)


def _find_symbol(pool: DescriptorPool, name: str) -> FileDescriptor:
    """Return the file of a symbol; `KeyError` if the pool has none."""
    try:
        return pool.FindFileContainingSymbol(name)
    except KeyError:
        # protobuf's search leaves out methods.
        return pool.FindMethodByName(name).containing_service.file


def _add_with_imports(files: dict[str, FileDescriptor], file: FileDescriptor) -> None:
    """Add a file, and all that it imports, directly or not."""
    if file.name not in files:
        files[file.name] = file
        for each in file.dependencies:
            _add_with_imports(files, each)


def _fill_error(response: Any, code: StatusCode, message: str) -> None:
    response.error_response.error_code, response.error_response.error_message = code, message
