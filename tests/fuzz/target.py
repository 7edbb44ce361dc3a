"""One parser and what it must withstand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """`run` raises nothing, whatever the bytes; what it asserts holds for all of them. `seeds` are good ones."""

    name: str
    run: Callable[[bytes], None]
    seeds: list[bytes]
