"""docs/reference/cli.md is what the commands say, and shells complete the commands in the way that it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli_reference import DOCUMENT, reference

from trxds.cli.main import main

PROGRAMS = Path(sys.executable).parent


def run(*command: str, **environment: str) -> str:
    """What a command prints, with `trxds` on the path."""
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, **environment}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_page_of_commands_is_up_to_date() -> None:
    assert DOCUMENT.read_text("utf-8") == reference(), "cd tests && python -m support.cli_reference"


def test_the_page_has_every_command_and_every_option() -> None:
    page = DOCUMENT.read_text("utf-8")
    assert re.findall(r"^## trxds (\w+)$", page, re.MULTILINE) == sorted(main.commands)
    for name, command in main.commands.items():
        section = page.partition(f"## trxds {name}\n")[2].partition("\n## ")[0]
        shown = [each for each in command.params if each.param_type_name == "option" and not getattr(each, "hidden", 0)]
        assert [option for each in shown for option in each.opts if option not in section] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_documented_shell_gets_its_script(shell: str) -> None:
    assert f"_TRXDS_COMPLETE={shell}_source trxds" in DOCUMENT.read_text("utf-8")
    script = run("trxds", _TRXDS_COMPLETE=f"{shell}_source")
    assert f"_TRXDS_COMPLETE={shell}_complete" in script


def test_the_documented_line_makes_bash_complete_commands() -> None:
    (line,) = re.findall(r"`(eval .*)` \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)[:1]
    assert "-F _trxds_completion trxds" in run("bash", "-c", f"{line}; complete -p trxds")


@pytest.mark.parametrize(
    ("words", "offered"),
    [("trxds se", ["sessions"]), ("trxds plane --ho", ["--host"]), ("trxds demo --li", ["--live"])],
)
def test_commands_and_options_are_completed(words: str, offered: list[str]) -> None:
    place = str(len(words.split()) - 1)
    found = run("trxds", _TRXDS_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=place)
    assert [line.partition(",")[2] for line in found.splitlines()] == offered
