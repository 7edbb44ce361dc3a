"""The report of a rehearsal: plain data, the same bytes for the same plan.

Times are seconds since the start. The time is cut into three windows: `before` the first step, the `change` until the
mesh has settled, and `after`. It has settled when the last thing has happened that the steps caused: a session that
moved, a call that failed, a connection that opened or ended, a response of the control plane. If it does not settle,
`after` is the second half of the time that follows the last step.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

from trxds.core.version import VERSION

from .mesh_of_files import addresses
from .plan import Plan
from .record import Move, Record

Report: TypeAlias = dict[str, Any]

WARM_UP = 5.0
"""Seconds at the start that count for no window, in which everything connects."""

QUIET = 5.0
"""Seconds without any effect of the steps, after which the mesh counts as settled."""

_PERCENTILES = {"p50": 50, "p95": 95, "p99": 99, "max": 100}


def make_report(plan: Plan, record: Record, digest: str) -> Report:
    """Return the report of what was recorded."""
    start = min(WARM_UP, plan.steps[0].at / 2)
    changed = plan.steps[0].at
    settled = _settled_at(plan, record)
    last = max(step.at + (step.lasts or 0.0) for step in plan.steps)
    afterwards = settled if settled <= plan.end - QUIET else (last + plan.end) / 2
    windows = {"before": (start, changed), "change": (changed, afterwards), "after": (afterwards, plan.end)}
    latencies = {name: _latency(record, window) for name, window in windows.items()}
    steps = [_step(plan, record, number) for number in range(len(plan.steps))]
    calls = list(chain.from_iterable(plan.load.targets.values()))
    moved = [move for move in record.moves if move.at >= changed]
    failed = [failure for failure in record.failures if failure.at >= changed]
    return {
        "rehearsal": {
            "version": VERSION,
            "seed": plan.seed,
            "clients": plan.load.clients,
            "sessions": plan.load.clients * plan.load.sessions,
            "hosts": len(plan.addresses),
            "rps": plan.load.clients * plan.load.rps,
            "seconds": plan.end,
            "protocol": "delta" if plan.delta else "state of the world",
            "targets": list(plan.load.targets),
            "methods": list(dict.fromkeys(call.path for call in calls)),
            # Values may be secrets.
            "metadata": list(dict.fromkeys(key for call in calls for key, _ in call.metadata)),
            "digest": digest,
        },
        "windows": {name: {"from": _rounded(begin), "to": _rounded(end)} for name, (begin, end) in windows.items()},
        "steps": steps,
        "sessions": {
            "total": plan.load.clients * plan.load.sessions,
            "moved": _sessions_of(moved),
            "moved_before": _sessions_of(move for move in record.moves if move.at < changed),
            "moves": len(moved),
            "why": _moves(moved),
            "by_host": _sessions_by_host(plan, record, changed),
        },
        "calls": {
            "total": len(record.calls) + len(record.failures),
            "after_the_change": sum(at >= changed for at, _ in record.calls) + len(failed),
            "failed": len(failed),
            "failed_before": len(record.failures) - len(failed),
            "errors": _errors(record.failures),
        },
        "latency": latencies,
        "latency_added": {name: _added(latencies, name) for name in ("change", "after")},
        # Of the step that took the longest.
        "settled_after": max(step["settled_after"] for step in steps) if settled <= plan.end - QUIET else None,
        "load": {name: _load(plan, record, name, windows[name]) for name in ("before", "after")},
        "resources_refused": _refusals(record),
        "connections": _connections(record, changed, plan.end),
        "per_second": _per_second(plan, record),
        "remarks": [*plan.remarks, *plan.untried, *_remarks(plan, record, changed)],
        "untried": list(plan.untried),
    }


def _remarks(plan: Plan, record: Record, changed: float) -> Iterator[str]:
    is_held = any(at < changed and host for at, _, _, host in record.pins)
    # Otherwise "0 moved" would look as if all sessions had kept their hosts.
    if plan.load.sessions and not is_held:
        yield "no session had a host before the change, so none can move; does BEFORE have a session filter for them?"


# -- when it has settled


def _settled_at(plan: Plan, record: Record) -> float:
    """Return when the last thing happened that the last step, or its end, has caused."""
    ends = [step.at + (step.lasts or 0.0) for step in plan.steps]
    events = [at for at in _disturbances(plan, record) if at >= plan.steps[0].at]
    return min(max([*ends, *events]), plan.end)


def _disturbances(plan: Plan, record: Record) -> Iterator[float]:
    # Errors that there were before the first step are the hosts' usual ones.
    usual = {(failure.code, failure.message) for failure in record.failures if failure.at < plan.steps[0].at}
    yield from (move.at for move in record.moves)
    yield from (each.at for each in record.failures if (each.code, each.message) not in usual)
    # At the end the clients close their channels.
    others = (record.opened, (at for at, _ in record.closed), (at for at, _ in record.unconnected), record.configured)
    yield from (at for at in chain(*others) if at < plan.end)


def _step(plan: Plan, record: Record, number: int) -> dict[str, Any]:
    step = plan.steps[number]
    until = plan.steps[number + 1].at if number + 1 < len(plan.steps) else math.inf
    events = [at for at in _disturbances(plan, record) if step.at <= at < until]
    end = step.at + step.lasts if step.lasts is not None else step.at
    return {
        "at": _rounded(step.at),
        "what": step.label,
        "until": _rounded(end),
        "moved": _sessions_of(move for move in record.moves if step.at <= move.at < until),
        "failed": sum(step.at <= each.at < until for each in record.failures),
        "connections_opened": sum(step.at <= at < until for at in record.opened),
        "settled_after": _rounded(max(events, default=step.at) - step.at),
    }


# -- sessions


def _sessions_of(moves: Iterable[Move]) -> int:
    return len({(move.client, move.session) for move in moves})


def _moves(moves: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the moves by their ways and reasons, the most frequent first."""
    counted = Counter((move.before, move.after, move.reason, move.cause) for move in moves)
    return [
        {"from": before, "to": after, "reason": reason, "cause": cause, "moves": count}
        for (before, after, reason, cause), count in sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    ]


def _sessions_by_host(plan: Plan, record: Record, changed: float) -> dict[str, Any]:
    before: dict[tuple[int, int], str] = {}
    after: dict[tuple[int, int], str] = {}
    for at, client, session, host in record.pins:
        if at < plan.end:
            after[client, session] = host
        if at < changed:
            before[client, session] = host
    return {"before": _counted(plan, before), "after": _counted(plan, after)}


def _counted(plan: Plan, where: dict[tuple[int, int], str]) -> dict[str, int]:
    counts = Counter(where.values())
    return {address: counts[address] for address in plan.addresses if counts[address]}


# -- calls


def _errors(failures: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the errors by status and message, the most frequent first."""
    first: dict[tuple[str, str], float] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for failure in failures:
        key = failure.code, failure.message
        counts[key] += 1
        first.setdefault(key, failure.at)
    return [
        {"code": code, "message": message, "calls": count, "first_at": _rounded(first[code, message])}
        for (code, message), count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    ]


def _latency(record: Record, window: tuple[float, float]) -> dict[str, float | None]:
    """Return percentiles of the calls that began in the window and succeeded, in milliseconds; None if there are none.

    `failed` are the calls that ended in the window, and did not succeed.
    """
    begin, end = window
    times = sorted(seconds for at, seconds in record.calls if begin <= at < end)
    found: dict[str, float | None] = {
        "calls": len(times),
        "failed": sum(begin <= each.at <= end for each in record.failures),
        "mean": _ms(sum(times) / len(times)) if times else None,
    }
    return found | {name: _ms(percentile(times, each)) if times else None for name, each in _PERCENTILES.items()}


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the nearest-rank percentile, from the 0th to the 100th: the least value that so many are not above."""
    # Whole numbers: 0.07 * 100 is a little more than 7, and its ceiling is 8.
    rank = -(-percent * len(ordered) // 100)
    return ordered[max(rank, 1) - 1]


def _added(latencies: dict[str, dict[str, float | None]], window: str) -> dict[str, float | None]:
    before, now = latencies["before"], latencies[window]
    return {
        name: None if (old := before[name]) is None or (new := now[name]) is None else _rounded(new - old)
        for name in ("mean", *_PERCENTILES)
    }


# -- hosts


def _load(plan: Plan, record: Record, name: str, window: tuple[float, float]) -> dict[str, Any]:
    """Return the calls a second of each host in the window's whole seconds, and how even they are.

    A host without calls counts if the resources of that window have it.
    """
    served = plan.resources
    for step in plan.steps if name == "after" else ():
        served = step.resources or served
    listed = frozenset(addresses(served, plan.names))
    end = min(math.floor(window[1]), len(record.host_calls) - 1)
    begin = min(math.ceil(window[0]), end)  # the same second, if the window has no whole one
    seconds = max(1, end - begin)
    calls = [last - first for first, last in zip(record.host_calls[begin], record.host_calls[end], strict=True)]
    by_host = {
        address: _rounded(count / seconds)
        for address, count in zip(plan.addresses, calls, strict=True)
        if count or address in listed
    }
    return {"by_host": by_host, **evenness(list(by_host.values()))}


def evenness(loads: Sequence[float]) -> dict[str, Any]:
    """Return the number of hosts, of those with calls, the greatest load as a multiple of the mean, and Jain's index.

    Both are 1 if all hosts have as many calls; the index is 1/n if one of n hosts has all.
    """
    if not any(loads):
        return {"hosts": len(loads), "with_calls": 0, "peak_to_mean": None, "fairness": None}
    mean = sum(loads) / len(loads)
    fairness = sum(loads) ** 2 / (len(loads) * sum(load * load for load in loads))
    return {
        "hosts": len(loads),
        "with_calls": sum(load > 0 for load in loads),
        "peak_to_mean": _rounded(max(loads) / mean),
        "fairness": _rounded(fairness),
    }


# -- the control plane and connections


def _refusals(record: Record) -> list[dict[str, Any]]:
    """Return what clients refused (NACK), with the number of clients that did."""
    clients: dict[tuple[str, str], set[int]] = {}
    for refusal in record.refusals:
        clients.setdefault((refusal.type, refusal.error), set()).add(refusal.client)
    return [{"type": type, "error": error, "clients": len(who)} for (type, error), who in sorted(clients.items())]


def _connections(record: Record, changed: float, end: float) -> dict[str, Any]:
    closed = Counter(why for at, why in record.closed if changed <= at < end)
    failed = Counter(why for at, why in record.unconnected if changed <= at < end)
    return {
        "opened_before": sum(at < changed for at in record.opened),
        "opened": sum(at >= changed for at in record.opened),
        "closed": dict(sorted(closed.items())),
        "failed": dict(sorted(failed.items())),
    }


# -- over time


def _per_second(plan: Plan, record: Record) -> dict[str, list[Any]]:
    """Return for each second the calls that succeeded and failed, the moves, and the median and p99 in milliseconds."""
    length = math.ceil(plan.end)
    times: list[list[float]] = [[] for _ in range(length)]
    for at, seconds in record.calls:
        if at < length:
            times[int(at)].append(seconds)
    for each in times:
        each.sort()
    failed = Counter(int(each.at) for each in record.failures)
    moved = Counter(int(each.at) for each in record.moves)
    opened = Counter(int(at) for at in record.opened)
    return {
        "ok": [len(each) for each in times],
        "failed": [failed[second] for second in range(length)],
        "moved": [moved[second] for second in range(length)],
        "connections_opened": [opened[second] for second in range(length)],
        "p50": [_ms(percentile(each, 50)) if each else None for each in times],
        "p99": [_ms(percentile(each, 99)) if each else None for each in times],
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _rounded(number: float) -> float:
    return round(number, 3)


__all__ = ["WARM_UP", "Report", "evenness", "make_report", "percentile"]
