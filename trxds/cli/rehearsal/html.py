"""A report as one page for those who approve a change: no script, nothing from elsewhere, every name escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from .charts import by_host, over_time
from .report import Report

_STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --dim: #59636e; --line: #d1d9e0; --back: #fff;
  --one: #1f6feb; --two: #bc4c00; --bad: #cf222e; --good: #1a7f37; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --dim: #9198a1; --line: #3d444d; --back: #0d1117;
  --one: #58a6ff; --two: #f0883e; --bad: #ff7b72; --good: #3fb950; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 900px;
  margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
p.about, figcaption, td.dim { color: var(--dim) }
table { border-collapse: collapse; width: 100% } th { text-align: left; font-weight: 600 }
th, td { padding: .25em .8em .25em 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: .8em }
.cards div { border: 1px solid var(--line); border-radius: 6px; padding: .6em .8em }
.cards b { display: block; font-size: 1.4em }
.bad, .cards .bad b { color: var(--bad) } .good { color: var(--good) }
figure { margin: 1em 0 } svg { width: 100%; height: auto } svg text { font-size: 11px; fill: var(--dim) }
svg text.end { text-anchor: end } svg text.middle { text-anchor: middle } svg text.small { font-size: 9px }
polyline { fill: none; stroke-width: 1.5; stroke-linecap: round; stroke-linejoin: round }
.grid { stroke: var(--line) } .mark { stroke: var(--dim); stroke-dasharray: 3 3 }
.succeeded, .median { stroke: var(--one) } .failed { stroke: var(--bad) } .p99, .moved { stroke: var(--two) }
rect.before { fill: var(--one) } rect.after { fill: var(--two) }
.key { margin-left: 1em } .key::before { content: ""; display: inline-block; width: 1em; height: .25em;
  margin: 0 .4em .2em 0; background: var(--one) }
.key.failed::before { background: var(--bad) }
.key.p99::before, .key.moved::before, .key.after::before { background: var(--two) }
code { font-size: .92em; overflow-wrap: anywhere }
"""


def as_page(report: Report, files: Sequence[str]) -> str:
    """Return the page."""
    # The policy holds even if a name from the files got through unescaped.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    body = "\n".join(_body(report, files))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Rehearsal of {escape(files[-1])}</title><style>{_STYLE}</style></head>\n<body>{body}</body></html>\n"
    )


def _body(report: Report, files: Sequence[str]) -> Iterator[str]:
    about = report["rehearsal"]
    yield f"<h1>Rehearsal of {escape(' → '.join(files))}</h1>"
    yield (
        f'<p class="about">{about["clients"]} clients, {about["sessions"]} sessions, {about["hosts"]} hosts, '
        f"{about['rps']:g} calls a second, {about['seconds']:g} s; {escape(about['protocol'])}, seed {about['seed']}, "
        f"trxds {escape(about['version'])}. The real client ran against simulated hosts.</p>"
    )
    yield _cards(report)
    if report.get("expectations"):
        yield "<h2>Expectations</h2>"
        yield _table(
            ("expected", "found", ""),
            ((each["text"], each["found"], _Verdict(each["holds"])) for each in report["expectations"]),
        )
    yield "<h2>Steps</h2>"
    yield _table(
        ("at", "step", "sessions moved", "calls failed", "connections opened", "settled after"),
        (
            (
                _Number(f"{step['at']:g} s"),
                step["what"],
                step["moved"],
                step["failed"],
                step["connections_opened"],
                _Number(f"{step['settled_after']:g} s"),
            )
            for step in report["steps"]
        ),
    )
    yield "<h2>Over time</h2>"
    yield from _charts(report)
    yield from _details(report)


def _cards(report: Report) -> str:
    sessions, calls, settled = report["sessions"], report["calls"], report["settled_after"]
    added = report["latency_added"]["change"]["p99"]
    cards = [
        (f"{sessions['moved']} of {sessions['total']}", "sessions moved", False),
        (f"{calls['failed']} of {calls['after_the_change']}", "calls failed", calls["failed"] > 0),
        ("–" if added is None else f"{added:+g} ms", "at the 99th percentile, until settled", False),
        ("not settled" if settled is None else f"{settled:g} s", "until settled", settled is None),
        (str(report["connections"]["opened"]), "connections opened", False),
        (str(len(report["resources_refused"])), "kinds of refusals (NACK)", bool(report["resources_refused"])),
    ]
    boxes = (
        f'<div class="{"bad" if bad else ""}"><b>{escape(value)}</b>{escape(text)}</div>' for value, text, bad in cards
    )
    return f'<div class="cards">{"".join(boxes)}</div>'


def _charts(report: Report) -> Iterator[str]:
    seconds, marks = report["per_second"], [step["at"] for step in report["steps"]]
    yield over_time("Calls a second", "", {"succeeded": seconds["ok"], "failed": seconds["failed"]}, marks)
    yield over_time("Latency", "ms", {"median": seconds["p50"], "p99": seconds["p99"]}, marks)
    yield over_time("Sessions that moved, each second", "", {"moved": seconds["moved"]}, marks)
    before, after = report["load"]["before"], report["load"]["after"]
    yield by_host("Load by host", "calls a second", before["by_host"], after["by_host"])
    held = report["sessions"]["by_host"]
    if report["sessions"]["total"]:
        yield by_host("Sessions by host", "at the first step and at the end", held["before"], held["after"])


def _details(report: Report) -> Iterator[str]:
    yield "<h2>Sessions that moved, and why</h2>"
    yield _table(
        ("from", "to", "reason", "cause", "moves"),
        (
            (each["from"], each["to"], each["reason"], each["cause"], each["moves"])
            for each in report["sessions"]["why"]
        ),
    )
    yield "<h2>Calls that failed</h2>"
    yield _table(
        ("status", "message", "calls", "first at"),
        (
            (each["code"], each["message"], each["calls"], _Number(f"{each['first_at']:g} s"))
            for each in report["calls"]["errors"]
        ),
    )
    yield "<h2>Resources that were refused</h2>"
    yield _table(
        ("type", "error", "clients"),
        ((each["type"], each["error"], each["clients"]) for each in report["resources_refused"]),
    )
    connections = report["connections"]
    yield "<h2>Connections that ended or failed</h2>"
    rows = [("ended", why, count) for why, count in connections["closed"].items()]
    rows += [("failed", why, count) for why, count in connections["failed"].items()]
    yield _table(("", "reason", "connections"), rows)
    if report["remarks"]:
        yield "<h2>Notes</h2><ul>" + "".join(f"<li>{escape(remark)}</li>" for remark in report["remarks"]) + "</ul>"


class _Number(str):
    """A text with a number and its unit, which stand at the right of a column."""


class _Verdict:
    def __init__(self, holds: bool) -> None:
        self.holds = holds


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = ["".join(_cell(value) for value in row) for row in rows]
    if not lines:
        return "<p>None.</p>"
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, _Verdict):
        return f'<td class="{"good" if value.holds else "bad"}">{"holds" if value.holds else "does not hold"}</td>'
    if isinstance(value, _Number):
        return f'<td class="number">{escape(value)}</td>'
    if isinstance(value, int | float):
        return f'<td class="number">{value:g}</td>'
    return f"<td>{escape(str(value))}</td>"
