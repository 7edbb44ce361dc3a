"""The texts of stubs, made from the descriptors of .proto files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from google.protobuf.descriptor_pb2 import FileDescriptorProto, MethodDescriptorProto, ServiceDescriptorProto
from msgspec import Struct

from .comments import Comments
from .imports import Imports
from .names import Names, full_name, method_name, module_of, path_of
from .servicers import ServicerModule, servicer_names
from .types import Place, places_of

# Of `trxds` and `trxds.sync` alike: a method's type and its maker, by whether requests and replies are streams.
KINDS = {
    (False, False): ("UnaryUnary", "unary_unary"),
    (False, True): ("UnaryStream", "unary_stream"),
    (True, False): ("StreamUnary", "stream_unary"),
    (True, True): ("StreamStream", "stream_stream"),
}


class Options(Struct, frozen=True):
    """Options of the generator: `relative` imports between files of one run, stubs for threads too, and servicers."""

    relative: bool = False
    sync: bool = False
    servicers: bool = False


def stubs_of(files: Iterable[FileDescriptorProto], wanted: Collection[str], options: Options) -> dict[str, str]:
    """Return the text of each module by its path; a wanted file without services has no module.

    `files` are the wanted files and all that they import.
    """
    files = tuple(files)
    places = places_of(files)
    beside = frozenset(module_of(name, "_pb2") for name in wanted) if options.relative else frozenset()
    made: dict[str, str] = {}
    for file in files:
        if file.name in wanted and file.service:
            made.update(_modules(file, places, beside, options))
    return made


def _modules(
    file: FileDescriptorProto, places: Mapping[str, Place], beside: Collection[str], options: Options
) -> Iterator[tuple[str, str]]:
    module = module_of(file.name, "_trxds")
    yield path_of(module), _StubModule(file, "trxds", Imports(module, beside, _methods(file)), places).text()
    if options.sync:
        module = module_of(file.name, "_trxds_sync")
        yield path_of(module), _StubModule(file, "trxds.sync", Imports(module, beside, _methods(file)), places).text()
    if options.servicers:
        module = module_of(file.name, "_trxds_servicers")
        yield path_of(module), ServicerModule(file, Imports(module, beside, servicer_names(file)), places).text()


def _methods(file: FileDescriptorProto) -> list[str]:
    return [method_name(method.name) for service in file.service for method in service.method]


class _StubModule:
    """One module of stubs while it is written. `room` is the package of its method types, `trxds` or `trxds.sync`."""

    def __init__(self, file: FileDescriptorProto, room: str, imports: Imports, places: Mapping[str, Place]) -> None:
        self._file = file
        self._imports = imports
        self._places = places
        self._comments = Comments(file)
        self._title = f"The services of {file.name}, for {'threads' if room == 'trxds.sync' else 'Trio'}."
        self._cached = imports.standard("functools", "cached_property")
        self._room = imports.whole(room)

    def text(self) -> str:
        classes = "".join(self._service(service, index) for index, service in enumerate(self._file.service))
        return self._imports.module(self._file.name, self._title, classes)

    def _service(self, service: ServiceDescriptorProto, index: int) -> str:
        names, whole = Names(), full_name(self._file, service)
        methods = (
            self._method(method, names.free(method_name(method.name)), whole, self._comments.of_method(index, n))
            for n, method in enumerate(service.method)
        )
        return (
            f"\n\nclass {service.name}Stub:\n{self._comments.of_service(index)}\n"
            f"    def __init__(self, caller: {self._room}.MethodFactory) -> None:\n"
            f'        """`caller` is a channel or a session."""\n'
            f"        self._caller = caller\n{''.join(methods)}"
        )

    def _method(self, method: MethodDescriptorProto, name: str, service: str, about: str) -> str:
        kind, maker = KINDS[method.client_streaming, method.server_streaming]
        request, response = self._places[method.input_type], self._places[method.output_type]
        types = f"{self._imports.message_type(request)}, {self._imports.message_type(response)}"
        return (
            f"\n    @{self._cached}\n"
            f"    def {name}(self) -> {self._room}.{kind}[{types}]:\n"
            f"{about}"
            f"        return self._caller.{maker}(\n"
            f'            "/{service}/{method.name}",\n'
            f"            {self._imports.message_class(request)},\n"
            f"            {self._imports.message_class(response)},\n"
            f"        )\n"
        )
