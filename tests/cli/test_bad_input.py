"""What commands say to input that nobody can use: which thing it is, where, and what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from trxds.cli import listening
from trxds.cli.main import main

NOT_UTF_8 = os.fsdecode(b"\xff")


def run(*command: str) -> Result:
    return CliRunner().invoke(main, command)


@pytest.mark.parametrize("status", ["NOPE", "unavail", "*Z*"])
def test_a_pattern_that_no_status_matches_is_a_usage_error(status: str) -> None:
    """Nothing would ever be shown."""
    done = run("tap", "127.0.0.1:1", "--status", status)
    assert (done.exit_code, f"'{status}' matches no status; there are OK, CANCELLED, " in done.stderr) == (2, True)


@pytest.mark.parametrize("status", ["unavailable", "UNAVAIL*", "*"])
def test_a_pattern_of_a_status_is_in_any_case(status: str) -> None:
    assert run("tap", "127.0.0.1:1", "--status", status).exit_code == 3  # no program is there


def test_the_port_of_a_page_needs_the_page() -> None:
    done = run("demo", "--port", "8080")
    assert (done.exit_code, "--port needs --live, whose page it is for" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "command", [["generate", "--out", "out", f"{NOT_UTF_8}.proto"], ["generate", "--out", "out", "-I", NOT_UTF_8, "x"]]
)
def test_a_path_that_protoc_cannot_take_is_a_usage_error(command: list[str]) -> None:
    done = run(*command)
    assert (done.exit_code, "is no UTF-8 text, and protoc needs that" in done.stderr) == (2, True)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.proto").write_text('syntax = "proto3"; message M {}')
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "out"
    done = run("generate", "-I", str(tmp_path), str(tmp_path / "x.proto"), "--out", str(out))
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: {out}") and done.stderr.endswith(": Not a directory\n")


def test_what_no_server_answers_is_not_saved_and_the_command_says_so(tmp_path: Path) -> None:
    bootstrap, saved = tmp_path / "bootstrap.json", tmp_path / "before.yaml"
    bootstrap.write_text('{"xds_servers": [{"server_uri": "127.0.0.1:1", "channel_creds": [{"type": "insecure"}]}]}')
    done = run("check", str(bootstrap), "--connect", "--within", "1s", "--target", "xds:///x", "--save", str(saved))
    assert (done.exit_code, saved.exists()) == (1, False)
    assert done.stderr == f"{saved}: nothing was saved, because no server gives an answer\n"


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EADDRINUSE, "Address already in use; take another port with --port, or 0 for a free one"),
        (errno.EACCES, "Permission denied; take a port from 1024 with --port, or 0 for a free one"),
        (errno.EADDRNOTAVAIL, "Cannot assign requested address; give an address of this machine with --host"),
    ],
)
def test_a_command_that_cannot_listen_says_what_to_do(number: int, remedy: str) -> None:
    error = OSError(number, os.strerror(number))
    assert listening.cannot_listen("10.0.0.9:80", ExceptionGroup("", [error])) == f"10.0.0.9:80: {remedy}"


def test_a_name_that_is_no_text_is_printed_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / NOT_UTF_8
    file.write_text("{")
    done = run("check", str(file))
    assert (done.exit_code, done.exception.__class__) == (1, SystemExit)
    assert ":1: error: no valid JSON" in done.stdout


def test_each_option_that_takes_a_value_says_which_in_its_help() -> None:
    """A word such as TEXT says nothing to who has never seen the command."""
    plain = [
        f"{name} {option.opts[0]}"
        for name, command in main.commands.items()
        for option in command.params
        if isinstance(option, click.Option) and not option.is_flag and not option.help and not option.metavar
    ]
    assert plain == []
