"""Changes to the text of protoc's modules for which protoc has no option. The text has a fixed form.

protoc's modules import one another from the top, which fails inside a package. Its .pyi files leave out types that
strict type checkers demand, and have some for extensions that no type checker takes.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from .names import relative

_IMPORT = re.compile(r"^import (\w+_pb2)(?= as |$)", re.MULTILINE)
_FROM_PACKAGE = re.compile(r"^from ([\w.]+) import (\w+_pb2)(?= as |$)", re.MULTILINE)
_FROM_MODULE = re.compile(r"^from ([\w.]+_pb2) import ", re.MULTILINE)  # of `import public`
_CALL = re.compile(r"\bimportlib\.import_module\('([\w.]+_pb2)'\)")  # a keyword in the path

_MAPPING = re.compile(r"\b_Mapping(?=[],])")  # a message given as a dict
_KWARGS = re.compile(r"\*\*kwargs(?=\))")  # fields whose names are keywords
_EXTENSIONS = re.compile(r"^ +Extensions: _python_message\._ExtensionDict\n", re.MULTILINE)  # Message has it, typed
_NUMBER = re.compile(r"^(\w+_FIELD_NUMBER: )_ClassVar\[int\]", re.MULTILINE)  # of an extension outside of a class


def export_all_types(text: str) -> str:
    """Return the text of a .pyi in which the types that protoc leaves open are `object`, and extensions have theirs."""
    text = _NUMBER.sub(r"\1int", _EXTENSIONS.sub("", text))
    return _KWARGS.sub("**kwargs: object", _MAPPING.sub("_Mapping[str, object]", text))


def make_imports_relative(text: str, module: str, beside: Collection[str]) -> str:
    """Return the text of `module` with relative imports of the modules that are `beside` it."""

    def dotted(name: str) -> str:
        package, last = relative(name, module)
        return package + last if package.endswith(".") else f"{package}.{last}"

    def imported(found: re.Match[str]) -> str:
        name = ".".join(found.groups())
        return "from {} import {}".format(*relative(name, module)) if name in beside else found[0]

    def from_module(found: re.Match[str]) -> str:
        return f"from {dotted(found[1])} import " if found[1] in beside else found[0]

    def called(found: re.Match[str]) -> str:
        return f"importlib.import_module('{dotted(found[1])}', __package__)" if found[1] in beside else found[0]

    text = _FROM_MODULE.sub(from_module, text)
    text = _FROM_PACKAGE.sub(imported, text)
    return _CALL.sub(called, _IMPORT.sub(imported, text))
