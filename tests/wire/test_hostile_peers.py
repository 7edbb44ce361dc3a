"""Servers that break the rules, or stretch them: each row of docs/errors.md holds, on both engines.

The table is the expectation: what every call of a script ends with, whether the connection goes on, and
how much memory both ends together may take meanwhile. The floods are long enough to go far beyond it if
anything of them were kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.hostile.scripts import SCRIPTS
from support.hostile.stage import perform

from trxds.ground.status import StatusCode
from trxds.wire.options import WireOptions

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "errors.md"
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


ROWS = rows()


def test_the_document_has_a_row_for_every_script_and_no_other() -> None:
    assert sorted(ROWS) == sorted(SCRIPTS)


@pytest.mark.parametrize("engine", ["lean", "h2"])
@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_hostile_peer_costs_what_the_document_says(name: str, engine: str, autojump_clock) -> None:
    script, row = SCRIPTS[name], ROWS[name]
    outcome = await perform(script, WireOptions(lean=engine == "lean"))
    assert [status.code for status in outcome.statuses] == [row.code] * script.calls
    assert outcome.goes_on is row.goes_on
    assert outcome.memory <= row.memory
