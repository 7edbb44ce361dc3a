"""An `IdAllocator` numbers objects for channelz (A14): an object keeps its id, and no id is used twice.

Objects need no attribute for it, and it does not keep them alive. An object gets its id when it is first shown.
"""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary


class IdAllocator:
    """The ids of all objects of one process that tools may ask for."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._things: WeakValueDictionary[int, Any] = WeakValueDictionary()
        # From 1, because channelz's ids are positive numbers.
        self._next = count(1)

    def id_of(self, thing: object) -> int:
        """Return the object's id, a new one if it has none yet."""
        number = self._numbers.get(thing)
        if number is None:
            number = self._numbers[thing] = next(self._next)
            self._things[number] = thing
        return number

    def find(self, number: int) -> object | None:
        """Return the object with that id; None if there was none, or it has been collected."""
        return self._things.get(number)
