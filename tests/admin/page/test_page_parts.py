"""The pure part of the page's script, under Node: skipped where there is none."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def test_the_javascript_tests_of_the_page_pass():
    node = shutil.which("node") or pytest.skip(
        "node is not installed, so the page's script is tested in a browser only"
    )
    done = subprocess.run(
        [node, "--test", "--test-reporter=tap", str(HERE / "page_parts.test.mjs")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout and "# tests 0" not in done.stdout
