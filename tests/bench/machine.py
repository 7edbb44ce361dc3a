"""What `make bench` ran on, and what it ran: for the JSON, and for the conditions under each table."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cores

import trxds

ROOT = Path(__file__).parents[2]
PACKAGES = ("trio", "grpcio", "grpclib")


def machine(pythons: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        # Of the trxds that is measured, which need not lie beside this file.
        "commit": _said(
            "git", "-C", str(Path(trxds.__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"
        ),
        "python": platform.python_version(),
        "other_pythons": [
            _said(python, "-c", "import platform; print(platform.python_version())") for python in pythons
        ],
        "system": platform.platform(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "pinned": cores.PINNED,
        "load": list(os.getloadavg()),  # before the bench itself made any
        "versions": {name: version(name) for name in PACKAGES} | _go_versions(),
    }


def _said(*command: str) -> str:
    """What a program prints; nothing where it cannot be run."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def _processor() -> str:
    """Its model, as Linux has it."""
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*: (.*)$", cpuinfo.read_text("utf-8"), re.MULTILINE) if cpuinfo.exists() else None
    return found[1] if found else platform.processor()


def _go_versions() -> dict[str, str]:
    required = (ROOT / "tests" / "peers" / "go" / "go.mod").read_text("utf-8")
    found = re.search(r"^\s*google\.golang\.org/grpc v(\S+)$", required, re.MULTILINE)
    return {"grpc-go": found[1]} if found else {}
