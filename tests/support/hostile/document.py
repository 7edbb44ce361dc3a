"""The rows of docs/hostile-servers.md: what is promised of each script."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from trxds.core.status import StatusCode

DOCUMENT = Path(__file__).parent.parent.parent.parent / "docs" / "hostile-servers.md"
_ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \| `([A-Z_]+)`[^|]* \| (goes on|ends) \| (\d+) (KiB|MiB) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """What the document says of a script."""

    code: StatusCode
    goes_on: bool
    memory: int


def rows() -> dict[str, Row]:
    """By the script's name."""
    found = _ROW.findall(DOCUMENT.read_text("utf-8"))
    return {
        name: Row(StatusCode[code], fate == "goes on", int(size) << {"KiB": 10, "MiB": 20}[unit])
        for name, code, fate, size, unit in found
    }
