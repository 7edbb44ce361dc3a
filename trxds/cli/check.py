"""`trxds check`: the errors and warnings of a bootstrap, line by line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal

import trio
from msgspec import Struct

from trxds.core.json_parse import parse_json
from trxds.core.json_reader import TOP, Problem
from trxds.core.plural import plural
from trxds.transport.connect import Network
from trxds.xds.bootstrap import Bootstrap, ServerConfig, examine
from trxds.xds.resource_names import authority_of, canonical, parse_target

from .bootstrap_lint import lint_bootstrap
from .json_lines import JsonLines
from .probe_server import ProbeResult, probe_server


class Finding(Struct, frozen=True, order=True):
    """One error or warning. `line` counts from 1; `path` is the field, empty for the text itself."""

    line: int
    weight: Literal["error", "warning"]
    path: str
    text: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (f"{self.line}", self.weight, self.path, self.text)))


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check: `findings` ordered by line. `bootstrap` is None if there are errors."""

    findings: tuple[Finding, ...] = ()
    bootstrap: Bootstrap | None = field(default=None, compare=False)

    def count(self, weight: str) -> int:
        return sum(finding.weight == weight for finding in self.findings)

    def __str__(self) -> str:
        return f"{plural(self.count('error'), 'error')}, {plural(self.count('warning'), 'warning')}"


def check(text: str) -> Report:
    try:
        document = parse_json(text)
    except json.JSONDecodeError as error:
        return Report((Finding(error.lineno, "error", "", f"no valid JSON: {error.msg} (column {error.colno})"),))
    lines = JsonLines(text)
    bootstrap, errors = examine(document)
    reported = {problem.steps for problem in errors}
    remarks = [problem for problem in lint_bootstrap(document) if problem.steps not in reported]
    findings = [
        *_findings(lines, "error", errors),
        *_findings(lines, "warning", remarks),
        *(
            Finding(lines.of(steps), "warning", "", f"{steps[-1]!r} stands twice here; this one counts")
            for steps in lines.repeated
        ),
    ]
    return Report(tuple(sorted(findings)), None if errors else bootstrap)


def check_file(path: Path) -> Report:
    try:
        return check(path.read_text("utf-8"))
    except UnicodeDecodeError as error:
        return Report((Finding(1, "error", "", f"not UTF-8 text ({error})"),))


async def check_servers(
    bootstrap: Bootstrap, network: Network, target: str | None, within: float
) -> dict[str, ProbeResult]:
    """Probe each server of the bootstrap; return the results by URI, in the bootstrap's order."""
    listener = canonical(parse_target(target, bootstrap).listener) if target else ""
    answers = {server.uri: ProbeResult(False, "not asked") for server in _servers(bootstrap, listener)}

    async def note(server: ServerConfig) -> None:
        answers[server.uri] = await probe_server(server, bootstrap, network, listener, within)

    async with trio.open_nursery() as nursery:
        for server in _servers(bootstrap, listener):
            nursery.start_soon(note, server, name=f"check {server.uri}")
    return answers


def _servers(bootstrap: Bootstrap, listener: str) -> Iterable[ServerConfig]:
    """Return the servers of the listener's authority, or all servers if no listener is given."""
    if not listener:
        return chain(bootstrap.servers, *(authority.servers for authority in bootstrap.authorities.values()))
    authority = bootstrap.authorities.get(authority_of(listener) or "")
    return (authority and authority.servers) or bootstrap.servers


def _findings(lines: JsonLines, weight: Literal["error", "warning"], problems: Iterable[Problem]) -> Iterable[Finding]:
    return (Finding(lines.of(problem.steps), weight, problem.path or TOP, problem.text) for problem in problems)
