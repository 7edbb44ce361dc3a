"""`parse_json` parses untrusted JSON, and raises one kind of error for everything that is wrong with it.

The standard library has three: a number of 5,000 digits is another `ValueError`, and a thousand nested brackets are a
`RecursionError`, in the parser or in code that walks over the value.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

MAX_DEPTH = 100
"""The limit of nested lists and objects, as in protobuf."""


class RepetitiveObject(dict[str, Any]):
    """An object in whose text some names stand more than once: `repeated`. The last value of each counts."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]


def parse_json(text: str | bytes) -> Any:
    """Return the value of the text; raises `json.JSONDecodeError` and no other exception."""
    try:
        value = json.loads(text, object_pairs_hook=_object)
    # Before its base class ValueError: it has the line and column that the other errors lack.
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise json.JSONDecodeError(str(error), "", 0) from None
    if _deeper_than(MAX_DEPTH, value):
        raise json.JSONDecodeError(f"more than {MAX_DEPTH} nested lists and objects", "", 0)
    return value


def parse_document(text: str, source: str, kind: type[Exception] = ValueError) -> Any:
    """Return the value of a text that somebody has written; an error of that kind says where to correct it."""
    try:
        return parse_json(text)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise kind(f"{source}: no valid JSON at {position}: {error.msg}; correct the text there") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    return made if len(made) == len(pairs) else RepetitiveObject(pairs)


def _deeper_than(limit: int, value: Any) -> bool:
    # Level by level, because a recursive walk would fail on the values that this rejects.
    level = [value]
    for _ in range(limit):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    """Return the lists and objects directly in a value."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in values if isinstance(each, dict | list)]
