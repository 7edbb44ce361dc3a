"""What docs/how-to/call-from-the-shell.md shows is what `trxds call` prints.

When its words change: `cd tests && python -m support.called` writes the document's outputs anew. Read them.
"""

from __future__ import annotations

import pytest
import trio
from support.called import DOCUMENT, SCENES, played, without_hosts
from support.transcript import Example

pytestmark = pytest.mark.slow

EXAMPLES = Example.of(DOCUMENT)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.line}-{example.scene}")
async def test_a_documented_call_prints_what_the_document_says(example: Example) -> None:
    with trio.fail_after(60):
        status, output = await played(example)
    assert without_hosts(output) == without_hosts(example.output)
    assert status == example.exit


def test_every_block_of_calls_is_run() -> None:
    text = DOCUMENT.read_text("utf-8")
    assert len(EXAMPLES) == text.count("```console") > 8
    assert {example.scene for example in EXAMPLES} == set(SCENES)
