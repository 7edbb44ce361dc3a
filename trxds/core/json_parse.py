"""JSON that others wrote: whatever is wrong with it is one kind of error.

The standard library has three: a number of 5,000 digits is another `ValueError`, and a thousand brackets are a
`RecursionError`, here or in whoever walks over the value.
"""

from __future__ import annotations

import json
from typing import Any

MAX_DEPTH = 100
"""Lists and objects inside of each other; protobuf's own limit."""


def parse_json(text: str | bytes) -> Any:
    """Raises `json.JSONDecodeError` and nothing else."""
    try:
        value = json.loads(text)
    # Before ValueError, of which it is one: it has the line and column that the others lack.
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise json.JSONDecodeError(str(error), "", 0) from None
    if _deeper_than(MAX_DEPTH, value):
        raise json.JSONDecodeError(f"more than {MAX_DEPTH} lists and objects inside of each other", "", 0)
    return value


def _deeper_than(most: int, value: Any) -> bool:
    # Level by level and not by recursion, which is what this guards against.
    level = [value]
    for _ in range(most):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    """The lists and objects in it."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in values if isinstance(each, dict | list)]
