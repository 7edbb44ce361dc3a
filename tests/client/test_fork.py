"""A forked child has its parent's channels and none of their tasks: each use raises, and nothing hangs."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("forking.py")
USES = [
    "unary",
    "open",
    "session",
    "explain",
    "state",
    "wait_for_state_change",
    "try_to_connect",
    "send",
    "receive",
]


@pytest.mark.parametrize("where", ["task", "thread"])
def test_every_use_of_a_channel_in_a_forked_child_raises_and_the_parent_goes_on(where):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), where], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    *said, parent = done.stdout.splitlines()
    name, _, process = parent.partition(" ")
    assert name == "parent"
    for use, line in zip(USES, said, strict=True):
        assert line.startswith(f"{use} RuntimeError: the channel to ipv4:127.0.0.1:")
        assert line.endswith(
            f" was opened in process {process}, and this process is a fork of it: "
            "its tasks and connections stayed there; open a channel after the fork"
        )
