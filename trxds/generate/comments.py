"""The comments of a .proto's services and methods, as docstrings."""

from __future__ import annotations

import re

from google.protobuf.descriptor_pb2 import FileDescriptorProto, ServiceDescriptorProto

from .names import full_name

_SERVICE = FileDescriptorProto.SERVICE_FIELD_NUMBER
_METHOD = ServiceDescriptorProto.METHOD_FIELD_NUMBER

_THREE_QUOTES = re.compile(r'"(?="")')  # of three the first is escaped, and never a line's last


class Comments:
    """The comments of a file's services and methods; each is the leading one, or else the trailing one."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._texts: dict[tuple[int, ...], str] = {}  # by path: field numbers and indices in the file's descriptor
        for location in file.source_code_info.location:
            text = _decoded(location.leading_comments or location.trailing_comments)
            if text.strip():
                self._texts[tuple(location.path)] = text

    def of_service(self, index: int) -> str:
        """Return the docstring of a service's class; without a comment it names the service."""
        service = self._file.service[index]
        text = self._texts.get((_SERVICE, index)) or f"The methods of {full_name(self._file, service)}."
        return docstring(_with_deprecation(text, service.options.deprecated), "    ")

    def of_method(self, service: int, index: int) -> str:
        """Return the docstring of a service's method; empty if it has no comment."""
        method = self._file.service[service].method[index]
        text = self._texts.get((_SERVICE, service, _METHOD, index), "")
        return docstring(_with_deprecation(text, method.options.deprecated), "        ")


def _decoded(text: str | bytes) -> str:
    # protoc takes a comment in Latin-1 as it is, and protobuf returns bytes for a string that is no UTF-8.
    return text if isinstance(text, str) else text.decode("utf-8", "replace")


def docstring(text: str, indent: str) -> str:
    """Return `text` as an indented docstring with a line end; empty for no text."""
    lines = _lines(text)
    if not lines:
        return ""
    if len(lines) == 1:
        line = f'{lines[0][:-1]}\\"' if lines[0].endswith('"') else lines[0]
        return f'{indent}"""{line}"""\n'
    rest = "".join(f"{indent}{line}\n" if line else "\n" for line in lines[1:])
    return f'{indent}"""{lines[0]}\n{rest}{indent}"""\n'


def _with_deprecation(text: str, deprecated: bool) -> str:
    """Return a comment that says so, if what it is about is deprecated."""
    return f"{text.rstrip()}\n\nDeprecated." if deprecated else text


def _lines(text: str) -> list[str]:
    lines = [_escaped(line.removeprefix(" ").rstrip()) for line in text.strip("\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return lines


def _escaped(line: str) -> str:
    """Escape whatever in a comment would end the docstring or be an escape sequence in it."""
    line = _THREE_QUOTES.sub(r"\"", line.replace("\\", "\\\\"))
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in line.replace("\t", "    "))
