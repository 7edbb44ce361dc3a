"""`trxds demo` keeps its promise, and says so when it is broken; real sockets, under five seconds each."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner
from rich.console import Console

import trxds
from trxds.cli.demo.mesh import HOSTS, Mesh
from trxds.cli.demo.screen import board_of, watching
from trxds.cli.demo.verdict import Record
from trxds.cli.main import main

pytestmark = pytest.mark.slow


def test_the_demo_exits_0_when_only_sessions_of_the_removed_host_moved() -> None:
    result = CliRunner().invoke(main, ["demo", "--seconds", "4.5"])
    assert "RPCs:     2400 of 2400\nfailures: 0\nsessions: 12, of which" in result.output
    assert "the control plane restarts" in result.output
    assert "Every session stayed, except where its host was removed.\n" in result.output
    assert result.exit_code == 0, result.output


def test_the_demo_exits_1_when_the_session_filter_is_taken_out() -> None:
    result = CliRunner().invoke(main, ["demo", "--seconds", "4.5", "--without-session-filter"])
    assert "BROKEN: 12 sessions left a host that was still there" in result.output
    assert result.exit_code == 1


def test_a_closed_pipe_ends_the_demo_without_a_traceback() -> None:
    command = [sys.executable, "-m", "trxds", "demo", "--seconds", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert (process.wait(30), process.stderr.read()) == (3, b"")


def test_the_demo_shows_a_table_on_a_terminal() -> None:
    console = Console(force_terminal=True, width=100, height=40, record=True)
    record = Record(expected=2400)
    record.met_in_session("session-1", "blue-1", at=0.1)
    with watching(console) as screen:
        screen.happened(1.2, "blue-2 is removed")
        screen.update(board_of(Mesh(HOSTS, removed=frozenset({"blue-2"})), record, 1.3, {}))
    shown = console.export_text()
    assert "1 of 2400 RPCs, 0 failures, 0 moved" in shown
    assert "blue-2" in shown and "removed" in shown
    assert "1.2 s  blue-2 is removed" in shown


def test_the_command_can_be_run_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "trxds", "--version"], capture_output=True, text=True, check=True
    )
    assert trxds.__version__ in done.stdout


def test_a_time_that_is_no_number_is_a_usage_error() -> None:
    result = CliRunner().invoke(main, ["demo", "--seconds", "nan"])
    assert result.exit_code == 2 and "'nan' is no finite number" in result.output
