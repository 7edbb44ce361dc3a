"""What docs/how-to/rehearse-a-change.md shows is what `trxds rehearse` prints.

The output depends on every random number of the runtime, so numbers are not compared. When more than they change:
`cd tests && python -m support.rehearsed` writes the document's outputs anew. Read them.
"""

from __future__ import annotations

import re

import pytest
from support.rehearsed import DOCUMENT, played
from support.transcript import Example

from trxds.cli.rehearsal import command
from trxds.cli.rehearsal.actions import ACTIONS
from trxds.cli.rehearsal.expectations import QUANTITIES
from trxds.cli.rehearsal.run import rehearse

pytestmark = pytest.mark.slow

EXAMPLES = Example.of(DOCUMENT)
TEXT = DOCUMENT.read_text("utf-8")


def comparable(output: str) -> list[str]:
    """Without numbers, and without the list of ways that sessions moved: how many there are depends on chance, too."""
    lines = [line for line in output.strip().splitlines() if " -> " not in line]
    return [re.sub(r"[+-]?\d+(\.\d+)?", "0", line) for line in lines]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.line))
def test_a_documented_rehearsal_prints_what_the_document_says(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "run_in_child", rehearse)  # another process takes a second
    status, output = played(example)
    assert comparable(output) == comparable(example.output)
    assert status == example.exit


def test_every_block_of_commands_is_run() -> None:
    assert len(EXAMPLES) == TEXT.count("```console") == 2


def test_every_step_and_every_expectation_is_documented() -> None:
    rows = set(re.findall(r"^\| `(\w+)", TEXT, re.MULTILINE)) | set(re.findall(r", `(\w+)` \|", TEXT))
    assert rows - {"trxds"} == ACTIONS.keys() | QUANTITIES.keys()
