"""The kinds of parameters that several commands have, checked where click's own let NaN pass."""

from __future__ import annotations

import math
from typing import Any

import click

from .quantities import parse_seconds


class _Seconds(click.ParamType):  # type: ignore[type-arg]  # no generic class before click 8.4
    """Seconds as `parse_seconds` reads them, above 0 unless 0 has a meaning."""

    name = "TIME"

    def __init__(self, *, is_above_zero: bool = True) -> None:
        self._is_above_zero = is_above_zero

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = parse_seconds(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if self._is_above_zero and not seconds:
            self.fail(f"{value!r} is no time above 0, such as 500ms or 30s", param, ctx)
        return seconds


SECONDS = _Seconds()
SECONDS_OR_ZERO = _Seconds(is_above_zero=False)


class FiniteRange(click.FloatRange):
    """A number in a range. `click.FloatRange` lets NaN pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no finite number", param, ctx)
        return number
