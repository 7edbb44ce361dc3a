"""The resolver of the system, with a DNS server that answers with several pods, as for a headless Service."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("headless_dns.py")
NAMESPACES = ["unshare", "--map-root-user", "--mount", "--net"]


@pytest.mark.long
def test_the_systems_resolver_finds_the_pods_of_a_headless_service_and_those_that_replace_them(tmp_path: Path) -> None:
    if missing := [tool for tool in ("unshare", "ip", "mount") if shutil.which(tool) is None]:
        pytest.skip(f"{missing[0]} is not installed: port 53 and resolv.conf have to be the test's own")
    tried = subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"there are no namespaces here: {tried.stderr.strip()}")
    done = subprocess.run(
        [*NAMESPACES, sys.executable, PROGRAM, tmp_path], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    first, second, third = (f"127.0.0.{number}:50051" for number in (2, 3, 4))
    assert found["of two pods"] == [first, second]
    (home,) = found["of a session"]
    (left,) = found["left"]
    assert {home, left} == {first, second}
    assert found["after a pod was replaced"] == sorted([home, third])
    assert found["of the session after it"] == [home]
    assert found["questions"] >= 2
