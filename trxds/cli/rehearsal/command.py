"""The command `trxds rehearse` and its options."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click
from msgspec import structs

from trxds.cli.control_plane import AnyName, read_for_clients
from trxds.cli.parameters import SECONDS, FiniteRange
from trxds.core.plural import plural
from trxds.core.status import BootstrapError
from trxds.resources.resource_file import ResourceFile
from trxds.transport.keepalive import MIN_KEEPALIVE_TIME
from trxds.xds import bootstrap
from trxds.xds.bootstrap import DELTA, Bootstrap
from trxds.xds.resource_names import parse_target

from . import client_bootstrap, mesh_of_files, routes
from .call_options import parse_call, parse_metadata
from .child import RehearsalError, run_in_child
from .expectations import QUANTITIES, Expectation, Verdict, parse_expectations
from .host_options import parse_behaviours
from .html import as_page
from .plan import Call, Load, Plan, Resource, Step
from .script import read_script
from .text import as_lines


class _Expectations(click.ParamType):  # type: ignore[type-arg]  # no generic class before click 8.4
    name = "TEXT"

    def convert(
        self, value: str | tuple[Expectation, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Expectation, ...]:
        if not isinstance(value, str):
            return value
        try:
            return parse_expectations(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _checked_calls(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[Call, ...]:
    try:
        return tuple(map(parse_call, texts))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _checked_metadata(
    context: click.Context, parameter: click.Parameter, headers: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    try:
        return parse_metadata(headers)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


CLIENTS = 20  # unless there are more targets
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_EXPECT_HELP = f"Exit 1 unless this holds: 'moved<=5% failed==0'; may be repeated. There are {', '.join(QUANTITIES)}."


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="BEFORE [AFTER]...")
@click.option("--script", type=FILE, help="Steps with their times, in YAML, in place of AFTER.")
@click.option(
    "--clients",
    type=click.IntRange(1),
    help=f"Clients, each with a channel.  [default: {CLIENTS}, or one for each target]",
)
@click.option("--sessions", type=click.IntRange(0), default=1, show_default=True, help="Sessions of each client.")
@click.option(
    "--rps",
    type=FiniteRange(0, 1e6, min_open=True),
    default=1.0,
    show_default=True,
    help="Calls a second, per client.",
)
@click.option("--timeout", type=SECONDS, default="5s", show_default=True, help="Deadline of each call.")
@click.option(
    "--keepalive", type=SECONDS, help="The clients' keepalive_time, 10s or more.  [default: they send no PING]"
)
@click.option(
    "--before", "first", type=SECONDS, default="30s", show_default=True, help="When the first AFTER is served."
)
@click.option(
    "--after",
    "rest",
    type=SECONDS,
    default="60s",
    show_default=True,
    help="How long each AFTER, or the last step, is watched.",
)
@click.option(
    "--hosts",
    "behaviours",
    multiple=True,
    metavar="TEXT",
    help="How hosts answer: 'latency=5ms p99=80ms errors=0.1% capacity=50', or some of them; one host, if its ADDRESS "
    "stands before them; may be repeated.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="xds:///NAME",
    help="What clients call; may be repeated.  [default: each API listener in BEFORE]",
)
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="'/package.Service/Method [KEY:VALUE]...'",
    callback=_checked_calls,
    help="A kind of call, with its own metadata; may be repeated.  [default: one for each route]",
)
@click.option(
    "-H",
    "--metadata",
    "metadata",
    multiple=True,
    metavar="KEY:VALUE",
    callback=_checked_metadata,
    help="Metadata of all calls; KEY-bin:BASE64; @FILE has lines of it; may be repeated.",
)
@click.option(
    "--bootstrap",
    "bootstrap_file",
    type=FILE,
    help="The clients' bootstrap: its templates, authorities, node, features of servers, and names of certificate "
    "providers. Nobody connects to its servers, and credentials and files are not used.  [default: made of the files]",
)
@click.option("--policy-seed", "seed", type=int, default=0, show_default=True, help="Decides all that is random.")
@click.option("--delta", is_flag=True, help="Clients use the incremental protocol variant.")
@click.option("--json", "as_json", is_flag=True, help="The whole report as one JSON value.")
@click.option(
    "--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write the report as one page, too."
)
@click.option("--expect", "expected", multiple=True, type=_Expectations(), help=_EXPECT_HELP)
def rehearse(
    files: tuple[Path, ...],
    script: Path | None,
    clients: int | None,
    sessions: int,
    rps: float,
    timeout: float,
    keepalive: float | None,
    first: float,
    rest: float,
    behaviours: tuple[str, ...],
    targets: tuple[str, ...],
    methods: tuple[Call, ...],
    metadata: tuple[tuple[str, str], ...],
    bootstrap_file: Path | None,
    seed: int,
    delta: bool,
    as_json: bool,
    page: Path | None,
    expected: tuple[tuple[Expectation, ...], ...],
) -> None:
    """Try a change of xDS resources on a simulated mesh, and report what it does to sessions and calls.

    BEFORE and each AFTER are files as `trxds plane` reads them. trxds's own client runs against hosts in memory, one
    for each endpoint in the files, on a clock that jumps. The same files and options give the same report.

    Exits 1 if a file has errors, or an expectation does not hold.
    """
    if keepalive is not None and keepalive < MIN_KEEPALIVE_TIME:
        raise click.BadParameter(f"must be {MIN_KEEPALIVE_TIME:g}s or more", param_hint="--keepalive")
    given = _read_bootstrap(bootstrap_file)
    providers = frozenset(given.certificate_providers) if given is not None else AnyName()
    contents = [_read(file, providers) for file in files]
    remarks = [f"{file}: {remark}" for file, content in zip(files, contents, strict=True) for remark in content.remarks]
    if given is not None:
        remarks.append(f"{bootstrap_file}: {client_bootstrap.unused_parts(given)}")
        delta = delta or DELTA in given.servers[0].features
    series = [tuple(content.resources.values()) for content in contents]
    steps, more = _steps(files, series, script, first, rest, remarks, providers)
    everything = [each for resources in (*series, more) for each in resources]
    if given is not None:
        document = client_bootstrap.from_file(given, delta=delta)
    else:
        document = client_bootstrap.from_resources(everything, delta=delta)
    called, untried = _calls(targets, series[0], everything, bootstrap.parse(document), methods, metadata)
    load = Load(clients or max(CLIENTS, len(called)), sessions, rps, timeout, keepalive, called)
    plan = _plan(
        series[0], everything, steps, document, load, rest, behaviours, remarks, untried, seed=seed, delta=delta
    )
    try:
        report = run_in_child(plan)
    except RehearsalError as error:
        raise click.ClickException(
            f"the rehearsal has failed; this is a bug in trxds, please report it\n{error}"
        ) from error
    verdicts = [each.check(report) for each in chain.from_iterable(expected)]
    report["expectations"] = [{"text": each.text, "found": each.found, "holds": each.holds} for each in verdicts]
    click.echo(json.dumps(report, indent=1) if as_json else "\n".join((*as_lines(report), *_verdicts(verdicts))))
    if page is not None:
        names = [str(file) for file in (*files, *([script] if script is not None else []))]
        _write(page, as_page(report, names))
    sys.exit(0 if all(each.holds for each in verdicts) else 1)


def _read_bootstrap(file: Path | None) -> Bootstrap | None:
    try:
        return bootstrap.read(file, source=str(file)) if file is not None else None
    except BootstrapError as error:
        raise click.ClickException(f"{error}\n`trxds check {file}` has the lines; nothing is rehearsed") from error


def _read(file: Path, providers: frozenset[str]) -> ResourceFile:
    """Return the resources of a file; errors are printed, and end the command."""
    try:
        content = read_for_clients(_text_of(file), providers)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if content.problems:
        for problem in content.problems:
            click.echo(f"{file}: {problem}", err=True)
        raise click.ClickException(f"{file}: {plural(len(content.problems), 'problem')}; nothing is rehearsed")
    return content


def _text_of(file: Path) -> str:
    """Return the text of a file; `ValueError` if it cannot be read."""
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror or error}") from error


def _steps(
    files: tuple[Path, ...],
    series: Sequence[tuple[Resource, ...]],
    script: Path | None,
    first: float,
    rest: float,
    remarks: list[str],
    providers: frozenset[str],
) -> tuple[tuple[Step, ...], tuple[Resource, ...]]:
    """Return the steps, and the resources of files that only the script names; what is odd there is a remark."""
    if script is None:
        if len(files) < 2:
            raise click.UsageError("nothing changes: give a second file, or steps by --script")
        changes = zip(files[1:], series[1:], strict=True)
        return tuple(
            Step(first + number * rest, "replace", f"replace by {file.name}", resources=resources)
            for number, (file, resources) in enumerate(changes)
        ), ()
    if len(files) > 1:
        raise click.UsageError("with --script there is one file, BEFORE; the script replaces it")

    def read(name: str) -> tuple[Resource, ...]:
        file = script.parent / name
        if not file.is_file():
            raise ValueError(f"there is no file {file}")
        content = read_for_clients(_text_of(file), providers)
        if content.problems:
            raise ValueError(f"{file}: {content.problems[0]}")
        remarks.extend(f"{file}: {remark}" for remark in content.remarks)
        return tuple(content.resources.values())

    try:
        found = read_script(_text_of(script), series[0], read)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    remarks.extend(f"{script}: {remark}" for remark in found.remarks)
    for problem in found.problems:
        click.echo(f"{script}: {problem}", err=True)
    if found.problems:
        raise click.ClickException(f"{script}: {plural(len(found.problems), 'problem')}; nothing is rehearsed")
    return found.steps, tuple(each for step in found.steps for each in step.resources)


def _plan(
    resources: tuple[Resource, ...],
    everything: list[Resource],
    steps: tuple[Step, ...],
    document: Mapping[str, Any],
    load: Load,
    rest: float,
    behaviours: tuple[str, ...],
    remarks: list[str],
    untried: list[str],
    *,
    seed: int,
    delta: bool,
) -> Plan:
    names = mesh_of_files.names(everything)
    addresses = mesh_of_files.addresses(everything, names)
    if not addresses:
        raise click.ClickException("no cluster of the files has an endpoint; nothing is rehearsed")
    try:
        behaviour, single = parse_behaviours(behaviours, addresses)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--hosts") from error
    end = max(step.at + (step.lasts or 0.0) for step in steps) + rest
    notes = *remarks, *(f"{name} is {names[name][0]} in the rehearsal" for name in names)
    left = *untried, *_coverage(load, steps, end)
    return Plan(resources, steps, end, addresses, document, names, load, seed, delta, behaviour, single, notes, left)


def _calls(
    targets: tuple[str, ...],
    before: tuple[Resource, ...],
    everything: list[Resource],
    known: Bootstrap,
    methods: tuple[Call, ...],
    metadata: tuple[tuple[str, str], ...],
) -> tuple[dict[str, tuple[Call, ...]], list[str]]:
    """Return the calls of each target, and notes of what no call tries."""
    untried: list[str] = []
    if not targets:
        found, nameless = client_bootstrap.targets(before, known)
        untried += (f"no target of the bootstrap's templates names the listener {listener!r}" for listener in nameless)
        if not found:
            why = untried[0] if untried else "BEFORE has no API listener, which clients ask for"
            raise click.UsageError(f"{why}; name one by --target xds:///NAME")
        targets = tuple(found)
    called: dict[str, tuple[Call, ...]] = {}
    for target in targets:
        try:
            parsed = parse_target(target, known)
        except (ValueError, BootstrapError) as error:
            raise click.BadParameter(str(error), param_hint="--target") from None
        tables = mesh_of_files.route_tables(everything, parsed.listener)
        paths = mesh_of_files.methods(mesh_of_files.matches(tables, parsed.authority))
        kinds = methods or tuple(Call(path) for path in paths)
        called[target] = tuple(structs.replace(each, metadata=(*metadata, *each.metadata)) for each in kinds)
        untried += (f"{target}: {text}" for text in routes.untried(tables, parsed.authority, called[target]))
    return called, untried


def _coverage(load: Load, steps: tuple[Step, ...], end: float) -> Iterator[str]:
    """Yield what the load does not reach: whatever the change is, nothing moves there."""
    if load.clients < len(load.targets):
        left = list(load.targets)[load.clients :]
        yield f"{plural(len(left), 'target')} without a client, such as {left[0]}; give --clients {len(load.targets)}"
    most = max(len(methods) for methods in load.targets.values())
    round_of_calls = max(1, load.sessions) * most
    before, after = steps[0].at, end - steps[-1].at
    # The last step comes within a round: only the next one is sure to have every call.
    if round_of_calls > before * load.rps or 2 * round_of_calls - 1 > after * load.rps:
        yield (
            f"a client takes {round_of_calls / load.rps:g} s to call each method in each session, and has {before:g} s "
            f"before the first step and {after:g} s after the last one: what it does not call cannot move; raise --rps"
        )


def _verdicts(verdicts: list[Verdict]) -> Iterator[str]:
    for each in verdicts:
        yield f"{'holds' if each.holds else 'FAILS':<12} {each.text} (found {each.found})"


def _write(page: Path, text: str) -> None:
    try:
        page.write_text(text, "utf-8")
    except OSError as error:
        raise click.ClickException(f"{page}: {error.strerror}; the page was not written") from error
