"""Times and shares as people write them: `200ms`, `1m30s`, `2`, `5%`."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|m|h)")


def parse_seconds(text: str) -> float:
    """Return seconds: a number alone, or numbers with ms, s, m or h. `ValueError` says what is expected."""
    found = _TIME.findall(text.strip())
    if found and "".join(f"{number}{unit}" for number, unit in found) == text.strip():
        seconds = sum(float(number) * _UNITS[unit] for number, unit in found)
    else:
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise ValueError(f"{text!r} is no time, such as 500ms, 30s or 1m30s")
    return seconds


def parse_share(text: str) -> float:
    """Return a share from 0 to 1: `5%`, or `0.05`. `ValueError` says what is expected."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"{text!r} is no share, such as 5% or 0.05")
    return share
