"""Each example runs by itself and prints what it promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent

PRINTED = {
    "cookie_jar.py": ["with a session: apples, bread, cheese", "with the interceptor: apples, bread, cheese"],
    "custom_filter.py": [
        "all: 2 left",
        "apples: 1 left",
        "bread: 0 left",
        'filter "budget": anna may make 2 calls',
        "tea: RESOURCE_EXHAUSTED, anna has made 2 calls",
    ],
    "custom_policy.py": [
        "anna: apples",
        "anna: apples, bread",
        "anna: apples, bread, cheese",
        "ben: tea",
        "ben: tea, milk",
    ],
    "gateway.py": [
        "anna: apples, bread, cheese",
        "anna: this is no session token, or not the whole of it; pass the text of export() unchanged",
        "ben: apples, bread, cheese",
        "carl: apples, bread, cheese",
    ],
    "hello.py": ["Hello, you"],
    "kubernetes_resolver.py": [
        "1. two pods get calls",
        "2. a third pod gets calls as soon as it is ready",
        "3. a pod that goes down keeps its session: True",
        "4. and gets no other calls: True",
        "5. when it is gone, the session moves: True",
    ],
    "sticky_session.py": ["anna: apples, bread, cheese", "ben: tea, milk"],
    "sticky_without_xds.py": ["anna: apples, bread, cheese", "ben: tea, milk"],
    "trio_service.py": ["apples: 2.50", "bread: 3.10", "unicorns: no price"],
}


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_runs_by_itself(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name)],
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, sorted(done.stdout.splitlines()), done.stderr) == (0, PRINTED[name], "")


def test_every_example_is_tested() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(PRINTED)
