"""The imports of one generated module. Each import is added at the first use of its name, under a name that is free."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .names import Names, are_identifiers, as_identifier, relative
from .types import Place


class Imports:
    """The imports of the module `importer`.

    `beside` are the modules that are generated in the same run, which relative imports can reach. `taken` are names
    that hide a module's own: the methods of a class do so in its body.
    """

    def __init__(self, importer: str, beside: Collection[str], taken: Iterable[str]) -> None:
        self._importer = importer
        self._beside = beside
        self._names = Names(taken)
        self._said: dict[str, str] = {}  # the name of what has been imported
        self._standard: list[str] = []
        self._others: list[str] = []
        self._near: list[str] = []  # relative ones
        self._loaded: list[str] = []  # by a call

    def standard(self, package: str, name: str) -> str:
        """Add `from PACKAGE import NAME` of the standard library."""
        return self._said.get(name) or self._from(package, name, self._standard)

    def other(self, package: str, name: str) -> str:
        """Add `from PACKAGE import NAME`."""
        return self._said.get(name) or self._from(package, name, self._others)

    def whole(self, module: str) -> str:
        """Add `import MODULE`; the module's first name has to be free."""
        first = module.partition(".")[0]
        alias = self._names.free(first)
        self._others.append(f"import {module}{_renamed(first, alias)}")
        return module if alias == first else alias

    def message_module(self, module: str) -> str:
        """Add the import of one of protoc's modules, generated in the same run or elsewhere."""
        if module not in self._said:
            self._said[module] = self._message_module(module)
        return self._said[module]

    def message_class(self, place: Place) -> str:
        """Add the import of a message's module, and return the expression for its class."""
        return place.expression(self.message_module(place.module))

    def message_type(self, place: Place) -> str:
        """Return the expression for a message's type: its class, or `Message` where type checkers cannot know it."""
        return self.message_class(place) if place.typed else self.other("google.protobuf.message", "Message")

    def text(self) -> str:
        """Return the statements in isort's groups: the standard library's come first."""
        groups = (sorted(each, key=_by_module) for each in (self._standard, self._others, self._near, self._loaded))
        return "\n\n".join("\n".join(lines) for lines in groups if lines)

    def _message_module(self, module: str) -> str:
        package, _, name = module.rpartition(".")
        beside = module in self._beside
        alias = self._names.free(as_identifier(name), as_identifier(module))
        if not are_identifiers(*module.split(".")):
            self._load(module, alias, beside)
            return alias
        if beside:
            package, name = relative(module, self._importer)
        statement = f"from {package} import {name}" if package else f"import {name}"
        (self._near if beside else self._others).append(statement + _renamed(name, alias))
        return alias

    def _load(self, module: str, alias: str, beside: bool) -> None:
        """Import a module that no import statement can name: its path has a keyword in it, or a digit in front."""
        load = self.standard("importlib", "import_module")
        if beside:
            package, name = relative(module, self._importer)
            dots = package if package.endswith(".") else f"{package}."
            self._loaded.append(f'{alias} = {load}("{dots}{name}", __package__)')
        else:
            self._loaded.append(f'{alias} = {load}("{module}")')

    def _from(self, package: str, name: str, lines: list[str]) -> str:
        alias = self._said[name] = self._names.free(name)
        lines.append(f"from {package} import {name}{_renamed(name, alias)}")
        return alias


def _renamed(name: str, alias: str) -> str:
    return "" if alias == name else f" as {alias}"


def _by_module(statement: str) -> tuple[bool, str]:
    return statement.startswith("from "), statement  # `import` first
