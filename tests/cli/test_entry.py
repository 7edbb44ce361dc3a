"""Ctrl-C while the commands are imported ends the process by the signal, in silence."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

RUN = "\nfrom trxds.cli.entry import main\nmain()\n"
INTERRUPTED = (
    """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "trxds.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""
    + RUN
)
SHOWING = (
    """
import signal, sys, types
module = types.ModuleType("trxds.cli.main")
module.main = lambda: print(repr(signal.getsignal(signal.SIGINT)))
sys.modules["trxds.cli.main"] = module
"""
    + RUN
)


def run(program: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", program, "--version"]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


def test_an_interrupt_during_the_imports_ends_the_process_by_the_signal_in_silence() -> None:
    done = run(INTERRUPTED)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(
    ("before", "handler"), [("", repr(signal.default_int_handler)), ("SIG_IGN", repr(signal.SIG_IGN))]
)
def test_a_command_has_the_handler_of_interrupts_that_the_process_began_with(before: str, handler: str) -> None:
    ignoring = f"import signal; signal.signal(signal.SIGINT, signal.{before})\n" if before else ""
    assert run(ignoring + SHOWING).stdout == f"{handler}\n"


def test_an_ignored_interrupt_is_ignored_during_the_imports_too() -> None:
    done = run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + INTERRUPTED)
    assert (done.returncode, done.stderr) == (0, "")
