"""The processes of a bench: each prints a line once it serves, and may answer lines after that."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

import cores

HERE = Path(__file__).parent
Run: TypeAlias = dict[str, float]


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

    def cpu(self) -> float | None:
        """Seconds of user and system time so far, of all its threads, where the system has a clock of them."""
        if sys.platform != "linux":
            return None
        return time.clock_gettime(~self._running.pid << 3 | 2)  # as clock_getcpuclockid(3) makes it of the id


@contextmanager
def program(*command: str, environ: Mapping[str, str] | None = None, core: int | None = None) -> Iterator[Process]:
    """Ends with us."""
    with cores.children_on(core):
        running = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE, env=environ
        )
    process = Process(running, "")
    try:
        process.address = process.listen().split()[-1]
        yield process
    finally:
        running.kill()
        running.communicate()


def child(
    *command: str, environ: Mapping[str, str] | None = None, core: int | None = None
) -> AbstractContextManager[Process]:
    """The same for a script, or a module, in this Python."""
    return program(sys.executable, *command, environ=environ, core=core)


def run_client(command: tuple[str, ...], orders: Mapping[str, object], environ: Mapping[str, str] | None = None) -> Run:
    """Run a client of measure.py to its end, on the clients' core; its answer."""
    with cores.children_on(cores.CLIENT):
        running = subprocess.Popen(
            [*command, json.dumps(orders)], stdout=subprocess.PIPE, text=True, cwd=HERE, env=environ
        )
    with running:
        try:
            answer, _ = running.communicate(timeout=120)
        except BaseException:
            running.kill()
            raise
    if running.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {running.returncode}")
    found: Run = json.loads(answer)
    return found
