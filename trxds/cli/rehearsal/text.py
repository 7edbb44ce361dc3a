"""A report as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trxds.core.plural import plural

from .report import Report

_MAX_LINES = 8  # of each list; --json has all


def as_lines(report: Report) -> Iterator[str]:
    """Yield the lines of a report."""
    about = report["rehearsal"]
    who = ", ".join(plural(about[f"{name}s"], name) for name in ("client", "session", "host"))
    yield f"{who}, {about['rps']:g} calls a second, {about['seconds']:g} s of virtual time, seed {about['seed']}"
    for remark in report["remarks"]:
        yield f"note: {remark}"
    yield ""
    for step in report["steps"]:
        yield f"at {step['at']:g} s: {step['what']}"
    yield ""
    yield from _sessions(report["sessions"])
    yield from _calls(report["calls"])
    yield from _latency(report)
    settled = report["settled_after"]
    yield f"settled      {'not before the end' if settled is None else f'after {settled:g} s'}"
    for window in ("before", "after"):
        yield f"load {window:<7} {_load(report['load'][window])}"
    yield from _connections(report["connections"])
    yield from _refused(report["resources_refused"])


def _sessions(sessions: dict[str, Any]) -> Iterator[str]:
    again = f", {sessions['moves']} moves" if sessions["moves"] != sessions["moved"] else ""
    share = f" ({100 * sessions['moved'] / sessions['total']:.3g}%)" if sessions["total"] else ""
    before = f"; before it {sessions['moved_before']}" if sessions["moved_before"] else ""
    yield f"sessions     {sessions['moved']} of {sessions['total']} moved{share}{again}{before}"
    yield from _first(
        [
            f"{each['from']} -> {each['to']}: {plural(each['moves'], 'move')}, {each['reason']}"
            f"{f' ({cause})' if (cause := each['cause']) else ''}"
            for each in sessions["why"]
        ]
    )


def _calls(calls: dict[str, Any]) -> Iterator[str]:
    total = calls["after_the_change"]
    share = f" ({100 * calls['failed'] / total:.3g}%)" if total else ""
    before = f"; before it {calls['failed_before']}"
    yield f"calls        {calls['failed']} of {total} failed after the first step{share}{before}"
    yield from _first(
        [
            f"{each['code']}: {each['message']} ({plural(each['calls'], 'call')}, first at {each['first_at']:g} s)"
            for each in calls["errors"]
        ]
    )


def _latency(report: Report) -> Iterator[str]:
    for window in ("before", "change", "after"):
        found = report["latency"][window]
        if found["p50"] is None:
            yield f"latency      {window}: no calls"
            continue
        added = report["latency_added"].get(window, {}).get("p99")
        more = f", {added:+g} ms at p99" if added is not None else ""
        yield f"latency      {window}: p50 {found['p50']:g} ms, p99 {found['p99']:g} ms, max {found['max']:g} ms{more}"


def _load(load: dict[str, Any]) -> str:
    if not load["with_calls"]:
        return "no calls"
    loads = load["by_host"].values()
    hosts = f"{load['with_calls']} of {plural(load['hosts'], 'host')}"
    evenness = f"greatest/mean {load['peak_to_mean']:g}, fairness {load['fairness']:g}"
    return f"{hosts}, {min(loads):g} to {max(loads):g} calls a second each, {evenness}"


def _connections(connections: dict[str, Any]) -> Iterator[str]:
    ended = sum(connections["closed"].values())
    failed = sum(connections["failed"].values())
    before = f"; before the first step {connections['opened_before']} opened"
    yield f"connections  {connections['opened']} opened, {ended} ended, {failed} failed{before}"
    yield from _first([f"ended: {why}: {count}" for why, count in connections["closed"].items()])
    yield from _first([f"failed: {why}: {count}" for why, count in connections["failed"].items()])


def _refused(refusals: list[dict[str, Any]]) -> Iterator[str]:
    if not refusals:
        yield "resources    none refused"
    for each in refusals:
        yield f"refused      {each['type']}, by {plural(each['clients'], 'client')}: {each['error']}"


def _first(lines: list[str]) -> Iterator[str]:
    yield from (f"             {line}" for line in lines[:_MAX_LINES])
    if len(lines) > _MAX_LINES:
        yield f"             and {len(lines) - _MAX_LINES} more; --json has all"
