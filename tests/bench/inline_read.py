"""What reading in the caller's task saves a lone call (docs/adr/0007), beside a grpc-go server and grpcio's.

python tests/bench/inline_read.py [--rounds 20] [--count 2000]

One call at a time, of 100 bytes each way, by a channel to one address. Client and server have a core each. The runs
with it and without it take turns, each in a fresh process. CPU is user and system time of the client. Beside other work
on these two cores the wall times mean little: `--most-load` is the load above which a round waits.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cores
import trio

import trxds
from trxds.transport.inline_read import InlineReads

HERE = Path(__file__).parent
GO_BACKEND = HERE.parent.parent / ".peers" / "go" / "backend"
PAYLOAD = b"\x12\x64" + b"x" * 100  # as a Payload, its body is 100 bytes
REQUEST = b"\x10\x64\x1a\x66" + PAYLOAD  # as a SimpleRequest, which asks for as many


async def client(address: str, method: str, count: int) -> None:
    """Print microseconds: CPU and the median time of one call."""
    async with trxds.open_channel(address) as channel:
        call = channel.method(method, None, None)
        for _ in range(count // 5):
            await call(REQUEST, wait_for_ready=True)
        times = []
        before = resource.getrusage(resource.RUSAGE_SELF)
        for _ in range(count):
            began = time.perf_counter()
            await call(REQUEST)
            times.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    print(json.dumps({"cpu": cpu / count * 1e6, "p50": statistics.median(times) * 1e6}))


@contextmanager
def server(command: list[str]) -> Iterator[str]:
    """Its address; it has a core of its own."""
    with cores.children_on(cores.SERVER):
        running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        line = running.stdout.readline().strip()
        yield json.loads(line)["listening"] if line.startswith("{") else line.split()[-1]
    finally:
        running.kill()
        running.communicate()


def measure(address: str, method: str, count: int, inline: bool) -> dict[str, float]:
    """One run in a fresh process."""
    orders = json.dumps({"address": address, "method": method, "count": count, "inline": inline})
    command = [sys.executable, __file__, orders]
    with cores.children_on(cores.CLIENT):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(name: str, address: str, method: str, rounds: int, count: int, most_load: float) -> None:
    """Print medians with it and without, and what it saves in the median pair."""
    runs: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    for turn in range(rounds):
        while os.getloadavg()[0] > most_load:
            time.sleep(5)
        for inline in (True, False) if turn % 2 else (False, True):
            runs[inline].append(measure(address, method, count, inline))
    for key in ("cpu", "p50"):
        own, reader = ([run[key] for run in runs[inline]] for inline in (True, False))
        saved = statistics.median(1 - mine / theirs for mine, theirs in zip(own, reader, strict=True))
        least = 1 - min(own) / min(reader)
        medians = f"{statistics.median(own):7.1f} µs [{min(own):.0f}..{max(own):.0f}] in the caller's task, "
        medians += f"{statistics.median(reader):7.1f} µs [{min(reader):.0f}..{max(reader):.0f}] in the reader's"
        print(f"{name:8} {key}: {medians}: saves {saved:.1%} (by the least runs {least:.1%})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--most-load", type=float, default=1.5)
    options = parser.parse_args()
    servers = {
        "grpc-go": ([str(GO_BACKEND), "-name", "go"], "/grpc.testing.TestService/UnaryCall"),
        "grpcio": ([sys.executable, str(HERE / "server.py")], "/bench.Echo/Unary"),
    }
    for name, (command, method) in servers.items():
        with server(command) as address:
            compare(name, address, method, options.rounds, options.count, options.most_load)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("{"):
        orders = json.loads(sys.argv[1])
        if not orders["inline"]:
            # The runs without it, in a process of their own.
            InlineReads.may_delegate = lambda self, last_opened: False  # type: ignore[method-assign]
        trio.run(client, orders["address"], orders["method"], orders["count"])
    else:
        main()
