"""A command whose output cannot be written says so in one line, and one whose reader has left ends in silence."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support.rehearsal_files import HOSTS, resources
from yaml import safe_dump

from trxds.cli.lost_output import output_error
from trxds.cli.main import main

FULL = "Error: the output cannot be written: No space left on device; make room, or write it elsewhere\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file for each command that needs one."""
    (tmp_path / "bootstrap.json").write_text("{}")
    (tmp_path / "before.yaml").write_text(safe_dump(resources(*HOSTS[:1])))
    (tmp_path / "x.proto").write_text('syntax = "proto3"; message M {}')
    return tmp_path


COMMANDS = [
    ["check", "bootstrap.json"],
    ["plane", "before.yaml", "--port", "0"],
    ["explain", "127.0.0.1:1", "/a.B/C", "--settle", "0s"],
]
"""One that prints at once, one out of its tasks, and one by way of `running/show.py`."""

OTHERS = [
    ["--help"],
    ["live", "127.0.0.1:1"],
    ["generate", "x.proto", "--out", "out"],
]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS + OTHERS, ids=" ".join)
def test_a_full_disk_is_one_line_and_no_traceback(folder: Path, command: list[str]) -> None:
    line = [sys.executable, "-m", "trxds", *command]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, cwd=folder, timeout=60, check=False, text=True)
    assert (done.returncode, done.stderr) == (3, FULL)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_reader_that_has_left_ends_a_command_in_silence(folder: Path, command: list[str]) -> None:
    out, into = os.pipe()
    os.close(out)
    line = [sys.executable, "-m", "trxds", *command]
    done = subprocess.run(line, stdout=into, stderr=subprocess.PIPE, cwd=folder, timeout=60, check=False, text=True)
    os.close(into)
    assert (done.returncode, done.stderr) == (3, "")


def test_an_error_line_that_cannot_be_written_is_no_traceback(folder: Path) -> None:
    with open("/dev/full", "wb") as full:
        assert ended_without_errors(folder, full.fileno()) == (3, b"")


def test_an_error_line_whose_reader_has_left_is_no_traceback(folder: Path) -> None:
    out, into = os.pipe()
    os.close(out)
    assert ended_without_errors(folder, into) == (3, b"")
    os.close(into)


@pytest.mark.slow
def test_a_full_disk_without_a_stderr_is_no_traceback(folder: Path) -> None:
    # A shell's `2>&-`: Python has no `sys.stderr` then.
    line = ["sh", "-c", 'exec "$0" -m trxds --version >/dev/full 2>&-', sys.executable]
    assert subprocess.run(line, cwd=folder, timeout=60, check=False).returncode == 3


def ended_without_errors(folder: Path, stderr: int) -> tuple[int, bytes]:
    """Run a command that fails with that stderr, in which Python has a buffer; return its exit code and its output."""
    line = [sys.executable, "-m", "trxds", "check", "nowhere"]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        line, stdout=subprocess.PIPE, stderr=stderr, cwd=folder, timeout=60, check=False, env=buffered
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE, errno.EDQUOT, errno.EIO])
def test_an_error_of_the_output_is_found_in_groups_of_tasks(number: int) -> None:
    lost = OSError(number, "x")
    assert output_error(ExceptionGroup("", [ValueError(), ExceptionGroup("", [lost])])) is lost


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "x", "/some/file"), OSError(errno.EADDRINUSE, "x"), ValueError()]
)
def test_errors_of_files_and_of_addresses_are_none_of_the_output(error: Exception) -> None:
    assert output_error(error) is None


def test_other_errors_of_a_command_stay_as_they_are(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(errno.EADDRINUSE, "x")

    monkeypatch.setattr(click, "echo", fail)
    done = CliRunner().invoke(main, ["check", str(folder / "bootstrap.json")])
    assert isinstance(done.exception, OSError) and done.exception.errno == errno.EADDRINUSE
