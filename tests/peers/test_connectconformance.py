"""connectconformance, with trxds as the client and as the server under test.

Cases that are known to fail are listed in known_failures. When one of them passes the run fails, as it does when
another one fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.conformance_protos import DESCRIPTORS, write_descriptors
from support.go_peers import CONFORMANCE_CASES, KNOWN_FAILURES, program

pytestmark = [pytest.mark.usefixtures("go_programs"), pytest.mark.long]

HERE = Path(__file__).parent
PATIENCE = 240  # seconds for a run, which takes ten
TOTAL = re.compile(r"^Total cases: (\d+)\n(\d+) passed, 0 failed$", re.MULTILINE)


def conformance(mode: str, folder: Path) -> subprocess.CompletedProcess[str]:
    known = f"@{KNOWN_FAILURES / f'connectconformance_{mode}'}"
    options = ["--mode", mode, "--conf", str(HERE / f"conformance_{mode}.yaml"), "--known-failing", known]
    # Its time limit for a server to start is ten seconds, which four at once may take on a busy machine.
    options += ["--max-servers", "2"]
    return subprocess.run(
        [str(program("connectconformance")), *options, "--", sys.executable, str(HERE / f"conformance_{mode}.py")],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, DESCRIPTORS: str(write_descriptors(folder))},
    )


@pytest.mark.parametrize("mode", CONFORMANCE_CASES)
def test_every_connectconformance_case_passes_except_known_failures(mode: str, tmp_path: Path) -> None:
    done = conformance(mode, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = TOTAL.search(done.stdout + done.stderr)
    assert found is not None and (int(found[1]), int(found[2])) == CONFORMANCE_CASES[mode]
