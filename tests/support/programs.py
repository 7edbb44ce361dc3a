"""Programs of a document, each in a process of its own that has trxds imported already.

A new interpreter imports for a second before a program of ten lines begins. So one interpreter imports, and forks for
each program; it has no threads and no loop that a fork could break.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

NOTHING: Mapping[str, str] = MappingProxyType({})
_FORKER = """
import asyncio, atexit, json, os, runpy, signal, sys, threading
import trxds, trxds.admin, trxds.policies, trxds.sync, trxds.testing
from trxds.cli.main import main

for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        for number, name in ((1, order["output"]), (2, order["errors"])):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND), number)
        os.environ.update(order["environ"])
        signal.alarm(60 if order["wait"] else 0)  # seconds; a program that hangs fails its test
        sys.stdout.reconfigure(line_buffering=True)  # as on a terminal
        status = 1
        try:
            name, *sys.argv = order["command"]
            if name == "trxds":
                sys.argv.insert(0, name)
                main()
            elif sys.argv[0] == "-m":
                del sys.argv[0]
                runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(sys.argv[0], run_name="__main__")
            threading._shutdown()
            atexit._run_exitfuncs()
            status = 0
        except SystemExit as exit:
            status = exit.code or 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if order["wait"] else child, flush=True)
"""


@dataclass(frozen=True)
class Programs:
    """Commands `trxds ...`, `python FILE ...` and `python -m MODULE ...` in one folder.

    Their output goes into a file, and their errors into that or another one.
    """

    _forker: subprocess.Popen[str]

    @classmethod
    @contextlib.contextmanager
    def run(cls, folder: Path, environ: Mapping[str, str], *options: str) -> Iterator[Programs]:
        """Begin; `options` are those of the interpreter."""
        forker = subprocess.Popen(
            [sys.executable, *options, "-c", _FORKER],
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with forker:
            yield cls(forker)
            assert forker.stdin is not None
            forker.stdin.close()

    def finish(
        self, command: Sequence[str], output: Path, errors: Path | None = None, environ: Mapping[str, str] = NOTHING
    ) -> int:
        """Run it, and return its exit status; `environ` is added to its environment."""
        return self._order(command, output, errors, environ, wait=True)

    @contextlib.contextmanager
    def started(self, command: Sequence[str], output: Path) -> Iterator[None]:
        """Run it beside the block."""
        process = self._order(command, output, None, NOTHING, wait=False)
        try:
            yield
        finally:
            os.kill(process, signal.SIGKILL)

    def _order(
        self, command: Sequence[str], output: Path, errors: Path | None, environ: Mapping[str, str], *, wait: bool
    ) -> int:
        assert self._forker.stdin is not None and self._forker.stdout is not None
        files = {"output": str(output), "errors": str(errors or output)}
        order = {"command": list(command), **files, "environ": dict(environ), "wait": wait}
        print(json.dumps(order), file=self._forker.stdin, flush=True)
        return int(self._forker.stdout.readline())
