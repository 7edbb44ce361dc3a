"""The imports of one generated module: each is found when its name is first used, and gets one that is free."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .names import Names, relative, speakable


class Imports:
    """`importer` is the module that imports, `beside` what is generated in one go with it, for relative imports.

    `taken` are names that hide a module's own: in a class body those of its methods do.
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
        """`from PACKAGE import NAME`, of the standard library."""
        return self._said.get(name) or self._from(package, name, self._standard)

    def other(self, package: str, name: str) -> str:
        """`from PACKAGE import NAME`."""
        return self._said.get(name) or self._from(package, name, self._others)

    def whole(self, module: str) -> str:
        """`import MODULE`, of which the first name has to be free."""
        first = module.partition(".")[0]
        alias = self._names.free(first)
        self._others.append(f"import {module}{_renamed(first, alias)}")
        return module if alias == first else alias

    def message_module(self, module: str) -> str:
        """One of protoc's modules, beside us or elsewhere."""
        if module not in self._said:
            self._said[module] = self._message_module(module)
        return self._said[module]

    def text(self) -> str:
        """The statements in groups: the standard library's first, as isort has it."""
        groups = (sorted(each, key=_by_module) for each in (self._standard, self._others, self._near, self._loaded))
        return "\n\n".join("\n".join(lines) for lines in groups if lines)

    def _message_module(self, module: str) -> str:
        package, _, name = module.rpartition(".")
        beside = module in self._beside
        alias = self._names.free(name, module.replace(".", "_"))
        if not speakable(*module.split(".")):
            self._load(module, alias, beside)
            return alias
        if beside:
            package, name = relative(module, self._importer)
        statement = f"from {package} import {name}" if package else f"import {name}"
        (self._near if beside else self._others).append(statement + _renamed(name, alias))
        return alias

    def _load(self, module: str, alias: str, beside: bool) -> None:
        """A keyword cannot stand in an import statement, but a folder may well be called `lambda`."""
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
