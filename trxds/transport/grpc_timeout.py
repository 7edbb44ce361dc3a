"""The header grpc-timeout has at most eight digits and a unit (PROTOCOL-HTTP2)."""

from __future__ import annotations

import math
import re

_UNITS = ((b"n", 1e-9), (b"u", 1e-6), (b"m", 1e-3), (b"S", 1.0), (b"M", 60.0), (b"H", 3600.0))
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])\Z")
_MAX_COUNT = 99_999_999


def encode_timeout(seconds: float) -> bytes:
    """Return the header's value in the finest unit that holds it.

    It is rounded up: a server must not give up before its client. A time that has passed is sent as 1n, the smallest
    value. For an endless time the caller leaves out the header.
    """
    if seconds <= 0:
        return b"1n"
    for unit, size in _UNITS:
        # As floats 1.1 s are 1100000.0000000002 us, which would be rounded up by a whole unit, so it is rounded first.
        count = math.ceil(round(seconds / size, 6)) if seconds / size <= _MAX_COUNT else _MAX_COUNT + 1
        if count <= _MAX_COUNT:
            return b"%d%s" % (max(count, 1), unit)
    return b"%dH" % _MAX_COUNT


def decode_timeout(value: bytes) -> float | None:
    """Return the seconds, or None if the text is no grpc-timeout."""
    match = _TIMEOUT.match(value)
    if match is None:
        return None
    return int(match[1]) * dict(_UNITS)[match[2]]
