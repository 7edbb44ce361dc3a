"""Programs of a document, each in a process of its own that has trxds imported already.

A new interpreter imports for a second before a program of ten lines begins. So one interpreter imports, and forks for
each program; it has no threads and no loop that a fork could break.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_FORKER = """
import json, os, runpy, sys
import trxds, trxds.testing, trxds.admin.server
from trxds.cli.main import main

for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        file = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1), os.dup2(file, 2)
        sys.stdout.reconfigure(line_buffering=True)  # as on a terminal
        status = 1
        try:
            name, *sys.argv = order["command"]
            if name == "trxds":
                sys.argv.insert(0, name)
                main()
            else:
                runpy.run_path(sys.argv[0], run_name="__main__")
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
    """Commands `trxds ...` and `python FILE ...` in one folder; output and errors go into a file."""

    _forker: subprocess.Popen[str]

    @classmethod
    @contextlib.contextmanager
    def run(cls, folder: Path, environ: Mapping[str, str]) -> Iterator[Programs]:
        forker = subprocess.Popen(
            [sys.executable, "-c", _FORKER],
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

    def finish(self, command: Sequence[str], output: Path) -> int:
        """Run it, and return its exit status."""
        return self._order(command, output, wait=True)

    @contextlib.contextmanager
    def started(self, command: Sequence[str], output: Path) -> Iterator[None]:
        """Run it beside the block."""
        process = self._order(command, output, wait=False)
        try:
            yield
        finally:
            os.kill(process, signal.SIGKILL)

    def _order(self, command: Sequence[str], output: Path, *, wait: bool) -> int:
        assert self._forker.stdin is not None and self._forker.stdout is not None
        print(
            json.dumps({"command": command, "output": str(output), "wait": wait}), file=self._forker.stdin, flush=True
        )
        return int(self._forker.stdout.readline())


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
