"""Python's names for what a .proto names: protoc's own rules for modules, and free names where protoc has none."""

from __future__ import annotations

from collections.abc import Iterable
from keyword import iskeyword


def module_of(proto: str, suffix: str) -> str:
    """`shop/my-cart.proto` with `_pb2` is `shop.my_cart_pb2`, as protoc has it."""
    return proto.removesuffix(".proto").replace("-", "_").replace("/", ".") + suffix


def path_of(module: str) -> str:
    """Where a module's text belongs, below the folder of all that is generated."""
    return module.replace(".", "/") + ".py"


def speakable(*names: str) -> bool:
    """Whether Python's grammar takes these names after a dot, anywhere."""
    # In a class, a name with two underscores in front would be another one.
    return not any(iskeyword(name) or name.startswith("__") for name in names)


def method_name(name: str) -> str:
    """A method's name in a stub: its own, but for keywords and what a stub uses itself."""
    if iskeyword(name):
        return f"{name}_"
    return name.lstrip("_") + "_" if name.startswith("__") or name == "_caller" else name


class Names:
    """Names that differ: who asks for one that is taken gets his second choice, or it with underscores behind."""

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
    """How the module `importer` says `from PACKAGE import NAME` for a module generated beside it."""
    *package, name = module.split(".")
    here = importer.split(".")[:-1]
    common = 0
    while common < min(len(here), len(package)) and here[common] == package[common]:
        common += 1
    return "." * (len(here) - common + 1) + ".".join(package[common:]), name
