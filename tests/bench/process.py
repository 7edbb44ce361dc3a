"""The processes of a bench: each prints a line once it serves, and may answer lines after that."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent


class Process:
    """`address` is the last word of the first line."""

    def __init__(self, running: subprocess.Popen[str], address: str) -> None:
        self._running = running
        self.address = address

    def ask(self, line: str) -> str:
        assert self._running.stdin is not None
        self._running.stdin.write(line + "\n")
        self._running.stdin.flush()
        return self.listen()

    def listen(self) -> str:
        assert self._running.stdout is not None
        answer = self._running.stdout.readline()
        if not answer:
            raise SystemExit(f"{' '.join(map(str, self._running.args))} ended")  # type: ignore[arg-type]
        return answer


@contextmanager
def child(*command: str, environ: Mapping[str, str] | None = None) -> Iterator[Process]:
    """Ends with us."""
    running = subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE, env=environ
    )
    process = Process(running, "")
    try:
        process.address = process.listen().split()[-1]
        yield process
    finally:
        running.kill()
        running.communicate()
