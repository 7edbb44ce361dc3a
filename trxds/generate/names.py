"""Python's names for a .proto's modules, services and methods.

Modules follow protoc's own rules. Where protoc has no rule, a free name is chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from keyword import iskeyword

from google.protobuf.descriptor_pb2 import FileDescriptorProto, ServiceDescriptorProto


def module_of(proto: str, suffix: str) -> str:
    """Return the module of a .proto by protoc's rule: `shop/my-cart.proto` with `_pb2` is `shop.my_cart_pb2`."""
    return proto.removesuffix(".proto").replace("-", "_").replace("/", ".") + suffix


def full_name(file: FileDescriptorProto, service: ServiceDescriptorProto) -> str:
    """Return a service's name with its package."""
    return ".".join(filter(None, (file.package, service.name)))


def path_of(module: str) -> str:
    """Return the path of a module's file below the output folder."""
    return module.replace(".", "/") + ".py"


def are_identifiers(*names: str) -> bool:
    """Return whether Python's grammar takes each of these names after a dot."""
    # In a class, a name with two underscores in front would be another one.
    return all(name.isidentifier() and not iskeyword(name) and not name.startswith("__") for name in names)


def as_identifier(module: str) -> str:
    """Return a variable's name for a module: `_2fa_pb2` for `2fa_pb2`."""
    name = re.sub(r"\W", "_", module)
    return name if name.isidentifier() else f"_{name}"


def method_name(name: str) -> str:
    """Return a method's name in a stub: its own, unless it is a keyword or a name that the stub itself uses."""
    if iskeyword(name):
        return f"{name}_"
    return name.lstrip("_") + "_" if name.startswith("__") or name == "_caller" else name


class Names:
    """A set of names without duplicates.

    Instead of a name that is taken, `free` gives the second choice, with underscores if needed.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def free(self, name: str, second: str = "") -> str:
        if name in self._taken and second:
            name = second
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def relative(module: str, importer: str) -> tuple[str, str]:
    """Return package and name for `from PACKAGE import NAME`, by which `importer` imports a module of the same run."""
    *package, name = module.split(".")
    here = importer.split(".")[:-1]
    common = 0
    while common < min(len(here), len(package)) and here[common] == package[common]:
        common += 1
    return "." * (len(here) - common + 1) + ".".join(package[common:]), name
