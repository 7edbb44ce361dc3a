"""Messages as lines of JSON.

A large message is encoded in pieces, because ten thousand rows at once would hold up RPCs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from .messages import Message, Section

_ROWS = 200  # in a piece


def pieces(message: Message) -> Iterator[bytes]:
    """Yield one line in pieces of some milliseconds each. Other tasks run while a piece is sent."""
    if "snapshot" not in message:
        yield _json(message) + b"\n"
        return
    yield b'{"number":%d,"snapshot":{' % message["number"]
    for place, (name, section) in enumerate(message["snapshot"].items()):
        yield b"%s%s:{" % (b"," if place else b"", _json(name))
        yield from _rows(section)
        yield b"}"
    yield b"}}\n"


def _rows(section: Section) -> Iterator[bytes]:
    rows = iter(section.items())
    comma = b""
    while some := dict(islice(rows, _ROWS)):
        yield comma + _json(some)[1:-1]
        comma = b","


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
