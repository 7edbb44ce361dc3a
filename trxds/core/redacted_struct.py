"""A `RedactedStruct` keeps some of its fields out of logs: secrets, and what is too long to be read."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct


class RedactedStruct(Struct, frozen=True):
    """A struct whose `repr` leaves out the fields that `redacted` names."""

    redacted: ClassVar[frozenset[str]]

    def __repr__(self) -> str:
        shown = (name for name in self.__struct_fields__ if name not in self.redacted)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
