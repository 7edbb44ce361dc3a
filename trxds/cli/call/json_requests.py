"""Requests as JSON: one value after the other, or a list of them. Each error names the field and the place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

import yaml
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from msgspec import Struct, structs

from trxds.cli.exit_codes import USAGE
from trxds.core.json_parse import parse_json
from trxds.resources.proto_yaml_validator import PARSE_ERRORS, Problem, ProtoValidator, YamlNode

from .schema import CallError

# Messages whose own JSON form may be a list.
_LISTS = frozenset({"google.protobuf.ListValue", "google.protobuf.Value"})

_OPENING, _CLOSING = "{[", "}]"


class JsonText(Struct, frozen=True):
    """The text of one JSON value, and where it begins: `line` and `column` count from 1."""

    text: str
    line: int = 1
    column: int = 1


class JsonSplitter:
    """Splits text that comes piece by piece into JSON values, each as soon as it is complete.

    It only looks for the end of a value; whether the value is valid JSON is found out when it is parsed.
    """

    def __init__(self) -> None:
        self._value: list[str] = []
        self._start = self._place = (1, 1)
        self._depth = 0
        self._in_string = self._is_escaped = False

    def feed(self, text: str) -> Iterator[JsonText]:
        """Yield the values that the text completes."""
        for each in text:
            is_space = not self._in_string and each in " \t\r\n"
            if is_space and self._value and not self._depth:
                yield self._take()
            if self._value or not is_space:
                self._add(each)
            line, column = self._place
            self._place = (line + 1, 1) if each == "\n" else (line, column + 1)
            if each in _CLOSING and self._value and not self._in_string and self._depth <= 0:
                yield self._take()

    def end(self) -> Iterator[JsonText]:
        """Yield what is left at the end of the text, complete or not."""
        if self._value:
            yield self._take()

    def _add(self, each: str) -> None:
        if not self._value:
            self._start = self._place
        self._value.append(each)
        if self._is_escaped:
            self._is_escaped = False
        elif self._in_string:
            self._is_escaped = each == "\\"
            self._in_string = each != '"'
        elif each == '"':
            self._in_string = True
        else:
            self._depth += (each in _OPENING) - (each in _CLOSING)

    def _take(self) -> JsonText:
        found = JsonText("".join(self._value), *self._start)
        self._value, self._depth = [], 0
        self._in_string = self._is_escaped = False
        return found


def split_json(text: str) -> list[JsonText]:
    """Return the JSON values that stand one after the other in a text."""
    splitter = JsonSplitter()
    return [*splitter.feed(text), *splitter.end()]


def parse_request(text: JsonText, source: str) -> Any:
    """Return the JSON value. Raises `CallError`, which names `source` and the place."""
    try:
        return parse_json(text.text)
    except json.JSONDecodeError as error:
        if not error.doc:  # too deep, or a number too long
            raise _error(source, [Problem(text.line, "", f"no valid JSON: {error.msg}")]) from None
        line = text.line + error.lineno - 1
        column = error.colno + (text.column - 1 if error.lineno == 1 else 0)
        raise _error(source, [Problem(line, "", f"no valid JSON at column {column}: {error.msg}")]) from None


def packed_types(value: Any) -> Iterator[str]:
    """Yield the full names of the messages that a JSON value packs into `google.protobuf.Any`."""
    if isinstance(value, dict):
        if isinstance(url := value.get("@type"), str):
            yield url.rpartition("/")[2]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from packed_types(each)


def read_requests(
    value: Any, text: JsonText, message: type[Message], pool: DescriptorPool, source: str
) -> list[Message]:
    """Return the requests of a parsed JSON value: one, or those of a list. Raises `CallError` for all its problems."""
    is_list = isinstance(value, list) and message.DESCRIPTOR.full_name not in _LISTS
    try:
        return [
            json_format.ParseDict(each, message(), descriptor_pool=pool) for each in (value if is_list else [value])
        ]
    except PARSE_ERRORS as error:
        problems = _problems(text, message, pool, is_list)
        first_line = str(error).partition("\n")[0]
        raise _error(source, problems or [Problem(text.line, "", first_line)]) from None


def _problems(text: JsonText, message: type[Message], pool: DescriptorPool, is_list: bool) -> list[Problem]:
    """Return where the value does not fit the message: JSON is YAML, whose parser knows the lines.

    Empty if nothing is found: protobuf refuses some messages only as a whole.
    """
    try:
        # YAML has no tabs there, and JSON none within strings. It refuses characters that JSON takes, such as DEL.
        loader = _JsonLoader(text.text.replace("\t", " "))
        root = loader.get_single_node()
    except yaml.YAMLError:
        return []
    if root is None:
        return []
    validator = ProtoValidator(loader, pool, mapping="an object")
    whole = YamlNode(root, "")
    nodes = [whole.item(number, each) for number, each in enumerate(root.value)] if is_list else [whole]
    kind = cast(Descriptor, message.DESCRIPTOR)  # the stubs have another class for the C implementation's
    found = [problem for node in nodes for problem in validator.message(node, kind)]
    return [structs.replace(problem, line=problem.line + text.line - 1) for problem in sorted(found)]


class _JsonLoader(yaml.SafeLoader):
    """Takes texts and numbers as JSON has them: YAML has rules of its own, for `1e3` and `on`."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return node.value if node.style == '"' else json.loads(node.value)
        return super().construct_object(node, deep=deep)


def _error(source: str, problems: Iterable[Problem]) -> CallError:
    return CallError("\n".join(f"{source}: {problem}" for problem in problems), USAGE)
