"""Does the simulator find bugs? Each mutant is one bug in a copy of the tree, and seeds are run until one fails.

    cd tests && ../.venv/bin/python -m simulate.mutants --seeds 500

The tree itself is never changed. What is printed at the end is the table of docs/reliability.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from .tally import ROOT

_FAILED = "simulate-mutant-failed"


@dataclass(frozen=True)
class Mutant:
    """A bug: in `file`, `old` becomes `new`."""

    name: str
    file: str
    old: str
    new: str


MUTANTS = (
    Mutant(
        "a lost wake-up of calls that wait for a picker",
        "client/dataplane.py",
        "            self.on_publish()\n        self._changed.unpark_all()",
        "            self.on_publish()\n        self._changed.unpark()",
    ),
    Mutant(
        "a lost wake-up of a policy: only the first that leases a host learns of its state",
        "transport/pool.py",
        "        for queue, _ in self._leases.get(subchannel, ()):",
        "        for queue, _ in list(self._leases.get(subchannel, ()))[:1]:",
    ),
    Mutant(
        "a stale picker: a node does not report a new one of the same state",
        "lb/policy_node.py",
        "            and last.picker is picker\n",
        "",
    ),
    Mutant(
        "a stale entry: a cluster's new endpoints are not sent to the tree",
        "resolver/xds_resolver.py",
        "if sent is not None and sent.cluster is cluster and sent.deleted is deleted:",
        "if sent is not None and sent.deleted is deleted:",
    ),
    Mutant(
        "an unreleased hold: a call without a response keeps its cluster",
        "client/rpc.py",
        "        if self.route.hold is not None:\n            self.route.release()\n        if self.route.filters",
        "        if self.route.filters",
    ),
    Mutant(
        "an unreleased hold: a replaced route table keeps its clusters",
        "resolver/xds_resolver.py",
        "                if in_force is not None and in_force is not routing:\n                    in_force.release()",
        "                pass",
    ),
    Mutant(
        "a lease that is not released: the sweep of idle session hosts",
        "lb/override_host/host_table.py",
        "            entry.host = entry.cached_pick = None\n            self._release(entry.address)",
        "            entry.host = entry.cached_pick = None",
    ),
    Mutant(
        "a lease that is released twice at an update: the pool forgets the host",
        "transport/pool.py",
        "        if not leases and not self._updates:",
        "        if len(leases) < 2 and not self._updates:",
    ),
    Mutant(
        "a swallowed cancel: a call whose caller is cancelled goes on",
        "client/call_scope.py",
        "        await trio.lowlevel.checkpoint()\n        deadline = trio.current_effective_deadline()",
        "        with trio.CancelScope(shield=True):\n            await trio.sleep(0.5)\n"
        "        deadline = trio.current_effective_deadline()",
    ),
    Mutant(
        "a stream that is not cancelled when its call is closed",
        "client/rpc.py",
        "            stream.cancel()\n        status = scope.status\n",
        "            pass\n        status = scope.status\n",
    ),
    Mutant(
        "a NACK that is an ACK: its error is left out",
        "xds/ads_stream_state.py",
        "        if ack and ack.errors:",
        "        if ack and ack.errors and len(ack.errors) > 1:",
    ),
    Mutant(
        "a NACK that is taken for an ACK: the refused version counts as accepted",
        "xds/ads_stream_state.py",
        "        if not response.errors:\n            subscription.version",
        "        if response.nonce:\n            subscription.version",
    ),
    Mutant(
        "an ACK that is never sent",
        "xds/ads_stream_state.py",
        "subscription.resources, now)\n        self._mark_dirty(response.type)",
        "subscription.resources, now)",
    ),
    Mutant(
        "a new ADS stream that does not request clusters again",
        "xds/ads_stream_state.py",
        "pending_types=dict.fromkeys(types))",
        'pending_types=dict.fromkeys(t for t in types if t.kind != "EDS"))',
    ),
    Mutant(
        "a circuit breaker's count that a failed call leaves behind",
        "lb/circuit_breakers.py",
        "        self.rpcs -= 1",
        "        self.rpcs -= status.ok",
    ),
    Mutant(
        "a missed end of an ejection: every host counts as ejected",
        "lb/outlier_detection/policy.py",
        "for record in self._records.values() if record.ejected_at is not None)\n        self._ejected",
        "for record in self._records.values())\n        self._ejected",
    ),
    Mutant(
        "a missed ejection: none ever takes effect",
        "lb/outlier_detection/policy.py",
        "        self._ejected = frozenset(chain.from_iterable(out))",
        "        self._ejected = frozenset(list(chain.from_iterable(out))[:0])",
    ),
    Mutant(
        "a session that waits for no connection: a host that is CONNECTING is left",
        "lb/override_host/policy.py",
        "            waiting.setdefault(state, entry)\n",
        "            if state is not Connectivity.CONNECTING:\n                waiting.setdefault(state, entry)\n",
    ),
    Mutant(
        "a session whose DRAINING host is not found",
        "lb/override_host/policy.py",
        "        if HealthStatus.DRAINING not in config.statuses:",
        "        if True:",
    ),
    Mutant(
        "a session whose cookie does not choose the cluster",
        "session_affinity/stateful_session_filter.py",
        "if session.cluster != call.cluster and session.cluster and",
        "if False and session.cluster and",
    ),
    Mutant(
        "a failover that does not end: the preferred priority is never used again",
        "lb/priority.py",
        "            tried.append(name)\n            if state in _USABLE:",
        "            tried.append(name)\n            if state in _USABLE and not any(\n"
        "                each in self._active and reports.get(each, CONNECTING).state in _USABLE\n"
        "                for each in names[names.index(name) + 1 :]\n            ):",
    ),
    Mutant(
        "a connection that drains and is not left",
        "transport/subchannel.py",
        "        self.working.remove(connection)\n",
        "",
    ),
    Mutant(
        "a GOAWAY whose unprocessed streams wait for ever",
        "transport/connection.py",
        "        self.http2.tasks.end_each(above, partial(ClientStream.fail, status=status, refused=True))",
        "        pass",
    ),
    Mutant(
        "a connection whose end does not fail its streams",
        "transport/connection.py",
        "            tuple(self.streams.open.values()),\n            lambda",
        "            tuple(self.streams.open.values())[1:],\n            lambda",
    ),
    Mutant(
        "a backoff that is not over: a failed host is never tried again",
        "transport/subchannel.py",
        "            self._set_attempt(Connectivity.IDLE)\n            self._connect_more()\n\n"
        "    async def _run_attempt",
        "            pass\n\n    async def _run_attempt",
    ),
    Mutant(
        "a deadline that does not end the wait for a host",
        "client/attempt.py",
        "            await scope.run_with_deadline(partial(live.wait_for_change, plane))",
        "            await live.wait_for_change(plane)",
    ),
    Mutant(
        "a session that is not forgotten when it ends",
        "client/pinned_sessions.py",
        "        for key, pin in session.pins.items():\n            self.session_unpinned(session, key, pin.host)\n"
        "        for stream",
        "        for stream",
    ),
    Mutant(
        "a fallback that never returns to the first control plane",
        "xds/authority.py",
        "            if stream_state.is_answering:",
        "            if stream_state.is_answering and not self._active[count:]:",
    ),
    Mutant(
        "a fallback that never begins",
        "xds/authority.py",
        "        return self._fallback_on_reachability_only or any(map(_never_came, self._resources.values()))",
        "        return self._fallback_on_reachability_only",
    ),
    Mutant(
        "a load report that loses its counts with its stream",
        "xds/lrs_stream.py",
        "        await stream.send(self._first_request())\n",
        "        await stream.send(self._first_request())\n        self._loads.take(self.server)\n",
    ),
    Mutant(
        "a load report in which a failed call goes on for ever",
        "lb/load_report/load_store.py",
        "        rpcs.in_progress -= 1",
        "        rpcs.in_progress -= status.ok",
    ),
    Mutant(
        "a load report that counts calls again in the next one",
        "lb/load_report/load_store.py",
        "        self.issued = self.succeeded = self.failed = 0",
        "        self.succeeded = self.failed = 0",
    ),
    Mutant(
        "a host that says NOT_SERVING and gets calls",
        "lb/endpoint_list.py",
        "        elif host.health is not OK:",
        "        elif False:",
    ),
    Mutant(
        "a host that says SERVING again and gets no calls",
        "transport/subchannel.py",
        "        if health != self.health:",
        "        if health != self.health and self.health in (None, OK):",
    ),
    Mutant(
        "a host of which only the first address is tried",
        "lb/endpoint_list.py",
        "        if self._num_tried == len(self.addresses):\n            return False",
        "        if self._num_tried >= 1:\n            return False",
    ),
    Mutant(
        "a session that knows only the first address of its host",
        "lb/override_host/policy.py",
        "        for address in override.addresses:\n            entry = self.table.get(address)\n"
        "            if entry is None or entry.health not in self.statuses:\n                continue\n"
        "            host = entry.host",
        "        for address in override.addresses[:1]:\n            entry = self.table.get(address)\n"
        "            if entry is None or entry.health not in self.statuses:\n                continue\n"
        "            host = entry.host",
    ),
    Mutant(
        "an attempt's timeout that does not end its stream",
        "client/attempt_timeout.py",
        "        if self._ends_at < math.inf and is_open():",
        "        if self._ends_at < 0 and is_open():",
    ),
    Mutant(
        "a pool whose room nobody is told of",
        "client/session_pool.py",
        "        self._has_unused.set()\n        self._admit()",
        "        self._has_unused.set()",
    ),
    Mutant(
        "a pool that ends the session that was used last",
        "client/session_pool.py",
        "        self._evict(next(iter(self._unused)))",
        "        self._evict(next(reversed(self._unused)))",
    ),
    Mutant(
        "a client that rebalances and releases sessions in use",
        "client/session_rebalancing.py",
        "            if seen is None or now - seen.since < self._idle_for or",
        "            if seen is None or",
    ),
    Mutant(
        "cookies whose time is that of the day, which jumps",
        "session_affinity/session_metadata.py",
        "import trio\n",
        "from types import SimpleNamespace\nfrom trxds.core.determinism import wall_clock\n"
        "trio = SimpleNamespace(current_time=lambda: wall_clock()())\n",
    ),
    Mutant(
        "no file descriptors: only connections that a peer refuses fail",
        "transport/subchannel.py",
        "                except OSError as error:\n                    return unavailable",
        "                except ConnectionError as error:\n                    return unavailable",
    ),
    Mutant(
        "a policy that raises now and then, which is logged",
        "lb/least_request.py",
        "        return replace(self._slow_start.decide(",
        "        if len(inputs.endpoints) > 2:\n            raise RuntimeError\n"
        "        return replace(self._slow_start.decide(",
    ),
    Mutant(
        "a leak in a channel: each call stays in a list until the end",
        "client/rpc.py",
        "        calls.open[self] = None\n",
        '        calls.open[self] = None\n        calls.__dict__.setdefault("all", []).append(self)\n',
    ),
)


def main() -> int:
    """Run all mutants, or those whose names contain a text; 1 if one was not found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="TEXT", help="part of a mutant's name; all by default")
    parser.add_argument("--seeds", type=int, default=500, help="so many at most for each (500)")
    parser.add_argument("--first", type=int, default=10_000, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time")
    options = parser.parse_args()
    chosen = [each for each in MUTANTS if not options.names or any(text in each.name for text in options.names)]
    running: dict[subprocess.Popen, tuple[Mutant, tempfile.TemporaryDirectory, float]] = {}
    waiting, missed = list(chosen), 0
    print("| mutant | found at seed | by |\n|---|---|---|", flush=True)
    while waiting or running:
        while waiting and len(running) < options.jobs:
            mutant = waiting.pop(0)
            place = tempfile.TemporaryDirectory(prefix="trxds-mutant-")
            running[begin(mutant, Path(place.name), options.first, options.seeds)] = mutant, place, time.monotonic()
        time.sleep(0.2)
        for process in [each for each in running if each.poll() is not None]:
            mutant, place, _ = running.pop(process)
            missed += not report(mutant, process, options.first, options.seeds)
            place.cleanup()
    print(f"{len(chosen) - missed} of {len(chosen)} were found within {options.seeds} seeds")
    return 1 if missed else 0


def begin(mutant: Mutant, place: Path, first: int, seeds: int) -> subprocess.Popen:
    """Begin to run seeds of a copy of the tree that has the bug."""
    shutil.copytree(ROOT / "trxds", place / "trxds", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("simulate", "support"):
        shutil.copytree(ROOT / "tests" / folder, place / "tests" / folder, ignore=shutil.ignore_patterns("__pycache__"))
    mutate(mutant, place)
    program = f"from simulate.mutants import run_until_found; run_until_found({first}, {seeds})"
    environment = {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{place / 'tests'}", "PYTHONHASHSEED": "0"}
    return subprocess.Popen(
        [sys.executable, "-c", program], cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def mutate(mutant: Mutant, place: Path) -> None:
    """Put the bug into the copy; `ValueError` if the code has changed so that it does not fit any more."""
    file = place / "trxds" / mutant.file
    text = file.read_text("utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(f"the mutant {mutant.name!r} fits {text.count(mutant.old)} times into {mutant.file}, not once")
    file.write_text(text.replace(mutant.old, mutant.new), "utf-8")


def run_until_found(first: int, seeds: int) -> None:
    """Run seeds until one fails, and print which one and what it says."""
    from .run import run_one

    for seed in range(first, first + seeds):
        result = run_one(seed, 10.0)
        if result.violations:
            print(_FAILED, seed, result.violations[0].split(",")[0].split(":")[0], flush=True)
            return


def report(mutant: Mutant, process: subprocess.Popen, first: int, seeds: int) -> bool:
    """Print the mutant's row; return whether it was found."""
    output = process.stdout.read().decode() if process.stdout is not None else ""
    found = [line.split(" ", 2) for line in output.splitlines() if line.startswith(_FAILED)]
    if found:
        print(f"| {mutant.name} | {int(found[0][1]) - first + 1} | `{found[0][2]}` |", flush=True)
    elif process.returncode:
        print(f"| {mutant.name} | 1 | it does not run: {output.strip().splitlines()[-1:]} |", flush=True)
    else:
        print(f"| {mutant.name} | not within {seeds} | |", flush=True)
    return bool(found) or process.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
