"""Durations, fractions and numbers in xDS messages, with the limits that gRPC sets."""

from __future__ import annotations

from typing import Any, TypeVar

from .validation_errors import ValidationErrors

N = TypeVar("N", int, float, int | None)

_MAX_SECONDS = 315_576_000_000  # google.protobuf.Duration: about ten thousand years
_MAX_NANOS = 999_999_999
UINT32_MAX = 2**32 - 1

# How many millionths one part is, by the number of FractionalPercent.DenominatorType.
_PER_MILLION = {0: 10_000, 1: 100, 2: 1}
MILLION = 1_000_000


def parse_duration(message: Any, problems: ValidationErrors) -> float | None:
    """Return the seconds of a google.protobuf.Duration; None if it is out of range."""
    # A Duration may be negative. No field here has a use for that, so gRPC rejects it (A50, A55, A75).
    before = problems.count
    if not 0 <= message.seconds <= _MAX_SECONDS:
        problems.at("seconds").add(f"value must be in the range [0, {_MAX_SECONDS}]")
    if not 0 <= message.nanos <= _MAX_NANOS:
        problems.at("nanos").add(f"value must be in the range [0, {_MAX_NANOS}]")
    return message.seconds + message.nanos / 1e9 if problems.count == before else None


def parse_optional_duration(parent: Any, field: str, problems: ValidationErrors) -> float | None:
    """Return the seconds of that field of `parent`; None if it is unset (or wrong)."""
    return parse_duration(getattr(parent, field), problems.at(field)) if parent.HasField(field) else None


def parse_duration_or(default: float, parent: Any, field: str, problems: ValidationErrors) -> float:
    """Return the seconds of that field of `parent`; `default` if it is unset (or wrong)."""
    seconds = parse_optional_duration(parent, field, problems)
    return default if seconds is None else seconds


def wrapped_number_or(default: N, parent: Any, field: str) -> N:
    """Return the number in that field of `parent`, a wrapper such as UInt32Value; `default` if it is unset."""
    number: N = getattr(parent, field).value if parent.HasField(field) else default
    return number


def per_million(fraction: Any, problems: ValidationErrors) -> int | None:
    """Return a FractionalPercent in parts per million; None if the denominator is unknown."""
    # Enums of proto3 are open: the server may send a denominator that is newer than the generated messages.
    scale = _PER_MILLION.get(fraction.denominator)
    if scale is None:
        problems.at("denominator").add("unknown denominator type")
        return None
    # A28: a numerator above its denominator is capped at all RPCs, and not rejected.
    return min(int(fraction.numerator) * scale, MILLION)
