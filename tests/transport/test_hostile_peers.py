"""Servers that break the rules, or stretch them: each row of docs/hostile-servers.md holds, on both engines.

The table is the expectation: the status of every call of a script, whether the connection goes on, and how much memory
both ends together may take. The floods are long enough to exceed that by far if anything of them were kept.
"""

from __future__ import annotations

import pytest
from support.hostile.document import rows
from support.hostile.scripts import SCRIPTS
from support.hostile.stage import perform

from trxds.transport.options import WireOptions

pytestmark = pytest.mark.slow

ROWS = rows()


def test_the_document_of_hostile_peers_has_a_row_for_every_script() -> None:
    assert sorted(ROWS) == sorted(SCRIPTS)


@pytest.mark.parametrize("engine", ["lean", "h2"])
@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_hostile_peer_costs_what_the_document_says(name: str, engine: str, autojump_clock) -> None:
    script, row = SCRIPTS[name], ROWS[name]
    outcome = await perform(script, WireOptions(lean=engine == "lean"))
    assert [status.code for status in outcome.statuses] == [row.code] * script.calls
    assert outcome.goes_on is row.goes_on
    assert outcome.memory <= row.memory
