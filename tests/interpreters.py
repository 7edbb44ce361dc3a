"""The Pythons on this machine that trxds supports and that start, for `make test-all`: their paths, the oldest first.

`--ends` prints the oldest and the newest alone. Which versions are supported is in pyproject.toml's classifiers.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PATIENCE = 20  # seconds for an interpreter to start
# Debian's python3 has neither unless python3-venv is installed as well.
PROBE = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"


def supported() -> list[str]:
    """The versions of pyproject.toml, `3.11` say."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
    found = re.findall(r"^Programming Language :: Python :: (3\.\d+)$", "\n".join(classifiers), re.MULTILINE)
    return sorted(found, key=lambda version: int(version.partition(".")[2]))


def candidates(version: str) -> Iterator[Path]:
    """Where a Python of that version may be: this one first, whose environment `make test` has already made."""
    yield Path(sys.executable)
    for folder in os.get_exec_path():
        yield Path(folder) / f"python{version}"
    # A shim of pyenv stands in the path also for a version that is not selected, and then it fails.
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from sorted(pyenv.glob(f"{version}.*/bin/python{version}"), reverse=True)


def starts(path: Path, version: str) -> bool:
    """Whether it runs, is of that version, and can make a virtual environment."""
    if not os.access(path, os.X_OK):
        return False
    try:
        done = subprocess.run([path, "-c", PROBE], check=False, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.strip() == version


def found() -> list[Path]:
    """One for each version that can be had."""
    each = (next((path for path in candidates(version) if starts(path, version)), None) for version in supported())
    return [path for path in each if path is not None]


def main(arguments: list[str]) -> None:
    paths = found()
    ends = [*dict.fromkeys([*paths[:1], *paths[-1:]])]
    print(*(ends if arguments == ["--ends"] else paths))


if __name__ == "__main__":
    main(sys.argv[1:])
