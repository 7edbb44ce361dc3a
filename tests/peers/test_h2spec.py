"""h2spec, which tries HTTP/2 sentence by sentence, against `trxds.testing.serve`."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import trio
from support.go_peers import H2SPEC_CASES, known_failures, program

from trxds.testing import Call, serve

pytestmark = pytest.mark.usefixtures("go_programs")

PATIENCE = 120  # seconds for the run, which takes one, and two more for each case that fails
LARGE = 100_000  # bytes: cases of flow control need a reply that fills their windows


async def reply(call: Call) -> None:
    """Answer without a request: h2spec sends none that is gRPC's."""
    await call.send(bytes(LARGE))


async def report(path: Path) -> list[tuple[str, bool]]:
    """Each strict case, and whether it passed."""
    command = [str(program("h2spec")), "--strict", "--junit-report", str(path)]
    with trio.fail_after(PATIENCE):
        async with serve(fallback=reply, max_concurrent_streams=100) as server:
            host, _, port = server.address.rpartition(":")
            await trio.run_process([*command, "-h", host, "-p", port], check=False, capture_stdout=True)
    return [
        (f"{case.get('package')} {case.get('classname')}", len(case) == 0)  # what went wrong is an element in it
        for case in ElementTree.parse(path).iter("testcase")
    ]


async def test_every_strict_h2spec_case_passes_except_known_failures(tmp_path: Path) -> None:
    cases = await report(tmp_path / "report.xml")
    assert len(cases) == H2SPEC_CASES
    assert sorted(name for name, passed in cases if not passed) == sorted(known_failures("h2spec"))
