"""The rows of docs/hostile-servers.md, which promise the outcome of each script."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from trxds.core.status import StatusCode

DOCUMENT = Path(__file__).parent.parent.parent.parent / "docs" / "hostile-servers.md"
_ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \| `([A-Z_]+)`[^|]* \| (goes on|ends) \| (\d+) (KiB|MiB) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """A row of the document: one script's outcome."""

    code: StatusCode
    goes_on: bool
    memory: int


def rows() -> dict[str, Row]:
    """Return the rows by the name of their script."""
    found = _ROW.findall(DOCUMENT.read_text("utf-8"))
    return {
        name: Row(StatusCode[code], fate == "goes on", int(size) << {"KiB": 10, "MiB": 20}[unit])
        for name, code, fate, size, unit in found
    }
