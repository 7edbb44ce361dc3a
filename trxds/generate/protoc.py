"""`trxds generate`: it runs protoc for the messages, and writes our stubs beside them.

protoc comes with grpcio-tools. It runs in a process of its own, because trxds never imports grpc. No file is written
before all of them have been generated.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from msgspec import Struct

from .names import module_of, path_of
from .rewrite import export_all_types, make_imports_relative
from .stubs import Options, stubs_of

# protoc's own log, which would hide the error of the proto below it.
_ABSL_LOG = re.compile(r"WARNING: All log messages before absl|[IWEF]\d{4} [\d:.]+ +\d+ \S+:\d+\]")
_RELATIVE = "Could not make proto path relative: "  # stands before `x.proto: No such file or directory`


class GenerateError(Exception):
    """The generation failed, and no file was written; the message says why."""


class Generated(Struct, frozen=True):
    """The files that were written, and those of protoc's that were left out because no type checker could read them."""

    written: tuple[Path, ...]
    unreadable: tuple[Path, ...]


def generate(protos: Sequence[str], out: Path, includes: Sequence[str], options: Options) -> Generated:
    """Write `_pb2.py`, `_pb2.pyi` and stubs of `protos` below `out`.

    `includes` are the folders in which protos and what they import are looked for; without any, the current one.
    Raises `GenerateError`, also for errors that protoc finds in the protos, and `OSError`.
    """
    if find_spec("grpc_tools") is None:
        raise GenerateError("protoc is missing; it comes with grpcio-tools: pip install 'trxds[generate]'")
    texts = _texts(protos, includes, options)
    unreadable = [path for path, text in texts.items() if not _readable(path, text)]
    for path in unreadable:
        texts.pop(path)
    for path, text in texts.items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(text, "utf-8")
    return Generated(tuple(out / path for path in sorted(texts)), tuple(out / path for path in unreadable))


def _texts(protos: Sequence[str], includes: Sequence[str], options: Options) -> dict[str, str]:
    """Return the text of every file to write, by path."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        _run_protoc(protos, includes, folder)
        files = FileDescriptorSet.FromString((folder / "descriptors").read_bytes()).file
        made = folder / "made"
        messages = {path.relative_to(made).as_posix(): _text(path) for path in made.rglob("*_pb2.py*")}
    # protoc knows its files by the shortest way from an include; it made messages for those it was asked for.
    wanted = {file.name for file in files if path_of(module_of(file.name, "_pb2")) in messages}
    if options.relative:
        messages = _relative(messages, frozenset(module_of(name, "_pb2") for name in wanted))
    return messages | stubs_of(files, wanted, options)


def _run_protoc(protos: Sequence[str], includes: Sequence[str], folder: Path) -> None:
    made = folder / "made"
    made.mkdir()
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc"),
        *(f"-I{include}" for include in includes or (".",)),
        *(f"--python_out={made}", f"--pyi_out={made}"),
        *(f"--descriptor_set_out={folder / 'descriptors'}", "--include_imports", "--include_source_info"),
        *protos,
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        lines = (line.removeprefix(_RELATIVE) for line in done.stderr.splitlines() if not _ABSL_LOG.match(line))
        errors = "\n".join(lines)
        raise GenerateError(
            errors.strip() or done.stderr.strip() or f"protoc ended with {done.returncode} and said nothing"
        )
    if done.stderr:
        print(done.stderr, end="", file=sys.stderr)  # its warnings


def _text(path: Path) -> str:
    text = path.read_text("utf-8")
    return export_all_types(text) if path.suffix == ".pyi" else text


def _relative(messages: Mapping[str, str], beside: frozenset[str]) -> dict[str, str]:
    return {
        path: make_imports_relative(text, path.rpartition(".")[0].replace("/", "."), beside)
        for path, text in messages.items()
    }


def _readable(path: str, text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError as error:
        if path.endswith(".pyi"):
            return False
        # The import of a file such as 2fa.proto: protoc writes an import statement for any name but a keyword.
        line = (error.text or "").strip()
        raise GenerateError(
            f"protoc's {path} is no Python: {line!r}; rename the .proto or the folder that it imports"
        ) from None
    return True
