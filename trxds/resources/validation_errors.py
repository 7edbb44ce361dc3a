"""Every error of a resource, each with its field path.

A control plane's author wants to see all that is wrong at once, so a parser notes a problem
and goes on. The texts are those of the C++ client: people search the web for them.
"""

from __future__ import annotations


class ValidationErrors:
    """What was found so far, seen from one field; `at` looks from a field below it."""

    __slots__ = ("_found", "_path")

    def __init__(self) -> None:
        self._path = ""
        self._found: dict[str, list[str]] = {}

    def at(self, field: str) -> ValidationErrors:
        """The same problems from a field further down: `name`, `name[3]`, or `[key]`."""
        # Past __init__, which would begin an empty account of its own.
        below = ValidationErrors.__new__(ValidationErrors)
        below._path = f"{self._path}.{field}" if self._path and field[0] != "[" else self._path + field
        below._found = self._found
        return below

    def add(self, error: str) -> None:
        self._found.setdefault(self._path, []).append(error)

    @property
    def texts(self) -> tuple[str, ...]:
        """One text per field, in the order in which they were found."""
        return tuple(_text(path, errors) for path, errors in self._found.items())

    @property
    def count(self) -> int:
        """How many there are, at whatever fields; to see whether a step added some."""
        return sum(map(len, self._found.values()))

    def __bool__(self) -> bool:
        """Something was found, at whatever field."""
        return bool(self._found)

    def __repr__(self) -> str:
        return f"<Problems at {self._path or 'the resource'!r}: {'; '.join(self.texts) or 'none'}>"


def _text(path: str, errors: list[str]) -> str:
    if len(errors) == 1:
        return f"field:{path} error:{errors[0]}"
    return f"field:{path} errors:[{'; '.join(errors)}]"
