"""The schema of .proto files, which protoc compiles first."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from trxds.cli.exit_codes import USAGE

from .schema import CallError, FileSchema, read_descriptor_set

_LOG_LINE = re.compile(r"WARNING: All log messages before|[IWEF]\d{4} \d")


def compile_protos(protos: Sequence[str], includes: Sequence[str]) -> FileSchema:
    """Return the schema of .proto files and what they import, which is looked for in `includes`, by default `.`.

    Raises `CallError` with protoc's own errors. protoc runs in a process of its own: trxds never imports grpc.
    """
    if find_spec("grpc_tools") is None:
        raise CallError("--proto needs protoc, which comes with grpcio-tools: pip install 'trxds[generate]'", USAGE)
    with TemporaryDirectory() as folder:
        result = Path(folder) / "descriptors"
        command = [
            *(sys.executable, "-m", "grpc_tools.protoc"),
            *(f"-I{include}" for include in includes or _default_includes(protos)),
            *("--include_imports", f"--descriptor_set_out={result}"),
            *protos,
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace")
        if done.returncode:
            text = _errors(done.stderr) or f"protoc ended with {done.returncode} and said nothing"
            raise CallError(f"--proto: {text}", USAGE)
        return read_descriptor_set(result.read_bytes(), ", ".join(protos))


def _default_includes(protos: Sequence[str]) -> list[str]:
    """Return the current folder, and the folders of files outside of it: protoc takes no file without one."""
    here = Path.cwd()
    folders = (Path(each).resolve().parent for each in protos)
    return [".", *dict.fromkeys(str(folder) for folder in folders if not folder.is_relative_to(here))]


def _errors(text: str) -> str:
    """Return what protoc says, without the lines of its library's log: the errors are in the others."""
    lines = (line for line in text.splitlines() if not _LOG_LINE.match(line))
    return "\n".join(lines).strip() or text.strip()
