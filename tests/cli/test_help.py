"""`trxds --help` lists each command with a whole sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from trxds.cli.main import main
from trxds.cli.summaries import first_sentence


def test_the_summaries_of_the_commands_are_not_cut() -> None:
    text = CliRunner().invoke(main, ["--help"]).output.partition("Commands:")[2]
    words = f" {' '.join(text.split())}"
    assert "..." not in text
    assert len(main.commands) > 10
    assert [name for name, each in main.commands.items() if f" {name} {each.short_help}" not in words] == []


def test_the_command_starts_with_a_click_whose_types_are_not_generic() -> None:
    program = "import click; click.ParamType.__class_getitem__ = None; import trxds.cli.main"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Check it.\n\nMore.", "Check it"),
        ("Check\n  example.com and 1.5 s. More.", "Check example.com and 1.5 s"),
        ("Nothing ends it", "Nothing ends it"),
        ("", ""),
    ],
)
def test_a_summary_is_the_first_sentence(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence
