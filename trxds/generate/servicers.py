"""The text of a module with a Protocol for the servicer of each service, in the form that `add_service` takes.

A method of a Protocol has a body, which ends the call UNIMPLEMENTED. So a class may have all methods, or inherit from
the Protocol and have some.
"""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.descriptor_pb2 import FileDescriptorProto, MethodDescriptorProto, ServiceDescriptorProto

from trxds.server.servicer import handler_names

from .comments import Comments
from .imports import Imports
from .names import full_name, module_of
from .types import Place


def servicer_names(file: FileDescriptorProto) -> list[str]:
    """Return the names of all handlers of a file, which hide a module's own names in the body of their class."""
    return [name for service in file.service for name in _names_of(service).values()]


def _names_of(service: ServiceDescriptorProto) -> dict[str, str]:
    return handler_names(method.name for method in service.method)


class ServicerModule:
    """The servicers' module of one file, while it is written."""

    def __init__(self, file: FileDescriptorProto, imports: Imports, places: Mapping[str, Place]) -> None:
        self._file = file
        self._imports = imports
        self._places = places
        self._comments = Comments(file)
        self._protocol = imports.standard("typing", "Protocol")
        self._call = imports.other("trxds.testing", "Call")
        self._server = imports.other("trxds.testing", "Server")
        self._status_code = imports.other("trxds", "StatusCode")
        self._messages = imports.message_module(module_of(file.name, "_pb2"))

    def text(self) -> str:
        title = f"The servicers of {self._file.name}, for `trxds.testing`."
        classes = "".join(self._service(service, index) for index, service in enumerate(self._file.service))
        return self._imports.module(self._file.name, title, classes)

    def _service(self, service: ServiceDescriptorProto, index: int) -> str:
        name, whole = f"{service.name}Servicer", full_name(self._file, service)
        names = _names_of(service)
        methods = "".join(
            self._method(method, names[method.name], f"/{whole}/{method.name}", self._comments.of_method(index, n))
            for n, method in enumerate(service.method)
        )
        return (
            f"\n\nclass {name}({self._protocol}):\n{self._comments.of_service(index)}{methods}"
            f"\n\ndef add_{name}_to_server(servicer: {name}, server: {self._server}) -> None:\n"
            f'    """Serve {whole}."""\n'
            f'    server.add_service({self._messages}.DESCRIPTOR.services_by_name["{service.name}"], servicer)\n'
        )

    def _method(self, method: MethodDescriptorProto, name: str, route: str, about: str) -> str:
        request = self._imports.message_type(self._places[method.input_type])
        reply = self._imports.message_type(self._places[method.output_type])
        asked = f"requests: {self._stream_of(request)}" if method.client_streaming else f"request: {request}"
        return (
            # A function that yields is no coroutine: `def` is the type of an `async def` with a `yield`.
            f"\n    {'' if method.server_streaming else 'async '}def {name}(\n"
            f"        self,\n        {asked},\n        call: {self._call},\n        /,\n"
            f"    ) -> {self._stream_of(reply) if method.server_streaming else reply}:\n"
            f"{about}"
            f'        call.abort({self._status_code}.UNIMPLEMENTED, "no handler for {route}")\n'
        )

    def _stream_of(self, message: str) -> str:
        return f"{self._imports.standard('collections.abc', 'AsyncIterator')}[{message}]"
