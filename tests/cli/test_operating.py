"""What docs/operating.md shows is what the commands print, in the situation that it tells of.

When a command's words change: `cd tests && python -m support.operated` writes the document's outputs anew. Read them.
"""

from __future__ import annotations

import pytest
import trio
from support.operated import DOCUMENT, SCENES, played
from support.transcript import Example, comparable

pytestmark = pytest.mark.slow

EXAMPLES = Example.of(DOCUMENT)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.line}-{example.scene}")
async def test_a_documented_command_prints_what_the_document_says(example: Example) -> None:
    with trio.fail_after(60):
        status, output = await played(example)
    assert comparable(output) == comparable(example.output)
    assert status == example.exit


def test_every_block_of_commands_is_run() -> None:
    text = DOCUMENT.read_text("utf-8")
    assert len(EXAMPLES) == text.count("```console") > 8
    assert {example.scene for example in EXAMPLES} == set(SCENES)


def test_documented_output_is_compared_except_for_values_that_differ_by_run() -> None:
    said = "ACKED since 2026-11-21T03:12:45Z, drew 37 of 100,   10.0 s ago"
    assert comparable(said) == comparable("ACKED since 2027-01-01T00:00:00Z, drew 4 of 100, 3 s ago")
    assert comparable(said) != comparable(said.replace("100", "10"))
