"""Pyright, the second opinion on types beside mypy."""

import os
import subprocess
import sys


def run_pyright(*arguments):
    # The package from PyPI brings a small part; node has to be there, and fetches the rest the first time.
    return subprocess.run(
        [sys.executable, "-m", "pyright", *arguments],
        check=False,
        env=os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
    )
