"""What `--expect` asserts about a report: `moved<=5% failed==0 settled<=10s`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from trxds.cli.quantities import parse_seconds, parse_share

from .report import Report

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_EXPECTATION = re.compile(r"([a-z0-9_]+)(<=|>=|==|!=|<|>)(\S+)")


class Quantity(Struct, frozen=True):
    """A number of a report that can be asserted; `missing` says why there is none.

    A percentage refers to `total`; `unit` is s, ms or "".
    """

    value: Callable[[Report], float | None]
    meaning: str
    total: Callable[[Report], float] | None = None
    unit: str = ""
    missing: str = ""


def _moved(report: Report) -> float | None:
    sessions, calls = report["sessions"], report["calls"]
    is_known = sessions["by_host"]["before"] and calls["failed"] < calls["after_the_change"]
    return float(sessions["moved"]) if is_known or sessions["moved"] else None


def _failed(report: Report) -> float | None:
    return float(report["calls"]["failed"]) if report["calls"]["after_the_change"] else None


def _latency(name: str) -> Callable[[Report], float | None]:
    return lambda report: _number(report["latency"]["after"][name])


def _added(name: str) -> Callable[[Report], float | None]:
    def value(report: Report) -> float | None:
        change = report["latency"]["change"]
        # A step without effect, or a slow link, has settled at once, and then no call falls into the change.
        window = "change" if change["calls"] or change["failed"] else "after"
        return _number(report["latency_added"][window][name])

    return value


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


_NO_CALLS = "no call succeeded, of those that began before the first step or of those after it"
_NONE_AFTERWARDS = "no call succeeded afterwards"

QUANTITIES = {
    "moved": Quantity(
        _moved,
        "sessions that moved",
        lambda report: float(report["sessions"]["total"]),
        missing="no session had a host before the first step and a call that succeeded after it",
    ),
    "failed": Quantity(
        _failed,
        "calls that failed",
        lambda report: float(report["calls"]["after_the_change"]),
        missing="no call was made after the first step",
    ),
    "refused": Quantity(
        lambda report: float(len(report["resources_refused"])), "different refusals (NACK) of resources"
    ),
    "opened": Quantity(lambda report: float(report["connections"]["opened"]), "connections that were opened"),
    "settled": Quantity(
        lambda report: _number(report["settled_after"]),
        "the time until the mesh had settled",
        unit="s",
        missing="it had not settled at the end",
    ),
    "added_p50": Quantity(_added("p50"), "latency added at the median", unit="ms", missing=_NO_CALLS),
    "added_p99": Quantity(_added("p99"), "latency added at the 99th percentile", unit="ms", missing=_NO_CALLS),
    "p50": Quantity(_latency("p50"), "the median of latencies afterwards", unit="ms", missing=_NONE_AFTERWARDS),
    "p99": Quantity(
        _latency("p99"), "the 99th percentile of latencies afterwards", unit="ms", missing=_NONE_AFTERWARDS
    ),
    "peak": Quantity(
        lambda report: _number(report["load"]["after"]["peak_to_mean"]),
        "the greatest load of a host afterwards, as a multiple of the mean",
        missing="no host had a call afterwards",
    ),
    "hosts": Quantity(lambda report: float(report["load"]["after"]["with_calls"]), "hosts with calls afterwards"),
    "untried": Quantity(lambda report: float(len(report["untried"])), "notes of what no call tries"),
}


class Expectation(Struct, frozen=True):
    """One assertion. `limit` is in the quantity's own unit, or a share of its total."""

    text: str
    name: str
    comparison: str
    limit: float
    is_share: bool

    def check(self, report: Report) -> Verdict:
        """Compare the report with the limit. A number that there is not, such as a latency without calls, fails."""
        quantity = QUANTITIES[self.name]
        value = quantity.value(report)
        if value is None:
            return Verdict(self.text, f"no number: {quantity.missing}", False)
        if not self.is_share:
            return Verdict(
                self.text, f"{value:g} {quantity.unit}".strip(), _OPERATORS[self.comparison](value, self.limit)
            )
        assert quantity.total is not None
        total = quantity.total(report)
        share = value / total if total else 0.0
        return Verdict(self.text, f"{100 * share:.3g}%", _OPERATORS[self.comparison](share, self.limit))


class Verdict(Struct, frozen=True):
    """Whether an expectation holds, and what was found."""

    text: str
    found: str
    holds: bool


def parse_expectations(text: str) -> tuple[Expectation, ...]:
    """Return the expectations of a text, separated by spaces or commas. `ValueError` says what is wrong."""
    parts = list(_parts(text))
    if not parts:
        raise ValueError("nothing is expected; write, for example, 'moved<=5% failed==0'")
    return tuple(_parse(part) for part in parts)


def _parts(text: str) -> Iterator[str]:
    joined = re.sub(r"\s*(<=|>=|==|!=|<|>)\s*", r"\1", text)
    yield from (part for part in re.split(r"[\s,]+", joined) if part)


def _parse(part: str) -> Expectation:
    match = _EXPECTATION.fullmatch(part)
    if match is None:
        raise ValueError(
            f"{part!r} is no expectation; write name, comparison and number without others, as in moved<=5%"
        )
    name, comparison, number = match.groups()
    if name not in QUANTITIES:
        known = ", ".join(QUANTITIES)
        raise ValueError(f"{part!r}: there is no {name!r}; there are {known}")
    quantity = QUANTITIES[name]
    try:
        limit, is_share = _limit(quantity, number)
    except ValueError as error:
        raise ValueError(f"{part!r}: {error}") from None
    return Expectation(part, name, comparison, limit, is_share)


def _limit(quantity: Quantity, number: str) -> tuple[float, bool]:
    if number.endswith("%"):
        if quantity.total is None:
            raise ValueError(f"{quantity.meaning} cannot be a percentage")
        return parse_share(number), True
    try:
        limit = float(number)
    except ValueError:
        if quantity.unit:
            return parse_seconds(number) * (1000 if quantity.unit == "ms" else 1), False
        limit = math.nan
    if not math.isfinite(limit):
        raise ValueError(f"{number!r} is no number")
    return limit, False
