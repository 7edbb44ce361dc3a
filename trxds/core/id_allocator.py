"""Numbers for things, by which tools ask for them: each has one for as long as it lives, and no two ever have the same.

Things know nothing of it, and are not kept by it. One is numbered when it is first spoken of.
"""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary


class IdAllocator:
    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._things: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._next = count(1)

    def id_of(self, thing: object) -> int:
        number = self._numbers.get(thing)
        if number is None:
            number = self._numbers[thing] = next(self._next)
            self._things[number] = thing
        return number

    def find(self, number: int) -> object | None:
        """None if there never was one of that number, or it is no more."""
        return self._things.get(number)
