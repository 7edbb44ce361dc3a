"""Values as data for JSON: a dataclass or a struct becomes a mapping of its fields."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, get_args

from msgspec import Struct

from .pick_outcomes import Outcome

_OUTCOMES = get_args(Outcome)


def as_plain_data(value: Any) -> Any:
    """Return the value in JSON's types: an enum as its name, infinity (no limit) as null, bytes as hexadecimal.

    A value of one of several types, such as an RPC's outcome or a filter's configuration, has its type in `kind`.
    """
    match value:
        # Before the numbers: an IntEnum is an int too, and JSON would show its number only.
        case Enum():
            return value.name
        # JSON has no infinity; json.dumps writes `Infinity`, which other parsers reject.
        case float() if math.isinf(value):
            return None
        case None | str() | bool() | int() | float():
            return value
        case bytes():
            return value.hex()
        case Mapping():
            return {str(key): as_plain_data(each) for key, each in value.items()}
        case tuple() | list() | Set():
            return [as_plain_data(each) for each in value]
        case Struct():
            return _with_fields(value, value.__struct_fields__)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _with_fields(value, (each.name for each in fields(value)))
        case _:
            return str(value)


def _with_fields(value: Any, names: Iterable[str]) -> dict[str, Any]:
    return _kind(value) | {name: as_plain_data(getattr(value, name)) for name in names}


def _kind(value: Any) -> dict[str, Any]:
    has_kind = isinstance(value, _OUTCOMES) or type(value).__name__.endswith("Config")
    return {"kind": type(value).__name__} if has_kind else {}
