"""Which Pythons `make test-all` runs on."""

from __future__ import annotations

import sys
from pathlib import Path

import interpreters
import pytest

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def test_those_of_the_classifiers_are_supported() -> None:
    assert interpreters.supported() == ["3.11", "3.12", "3.13", "3.14"]


def test_one_that_runs_and_can_make_an_environment_is_found() -> None:
    assert interpreters.starts(Path(sys.executable), HERE)
    assert not interpreters.starts(Path(sys.executable), "3.10")


def test_one_that_is_there_but_does_not_start_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim = tmp_path / "python3.13"
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.13: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert shim in interpreters.candidates("3.13")
    assert not interpreters.starts(shim, "3.13")
    assert interpreters.found() == ([Path(sys.executable)] if HERE in interpreters.supported() else [])


def test_a_file_that_is_no_program_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "python3.13").write_text("not a program")
    (tmp_path / "python3.13").chmod(0o755)
    assert not interpreters.starts(tmp_path / "python3.13", "3.13")
    assert not interpreters.starts(tmp_path / "python3.12", "3.12")
