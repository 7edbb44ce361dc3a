"""The commands and their options. Each command calls a module beside this one."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

import click
import trio
from rich.console import Console

import trxds
from trxds.core.authority import is_ip, join_address
from trxds.core.determinism import wall_clock
from trxds.core.error_text import leaves
from trxds.core.plural import plural
from trxds.core.status import BootstrapError
from trxds.generate.protoc import GenerateError
from trxds.generate.protoc import generate as generate_stubs
from trxds.generate.stubs import Options
from trxds.resolver.as_plain_data import as_plain_data
from trxds.transport.connect import Network, TcpNetwork
from trxds.transport.http_proxy import proxy_finder, server_network

from .call.command import call
from .check import check_file, check_servers
from .control_plane import serve_file
from .cookie import as_lines, read_cookie
from .demo.run import run_demo, run_live
from .demo.screen import show_page, show_verdict, watching
from .exit_codes import SUCCESS, UNREACHABLE
from .explain import CREDENTIALS, call_metadata, show_explanation, show_in_program
from .listening import cannot_listen
from .lost_output import give_up_output, output_error
from .parameters import (
    BOOTSTRAP_HELP,
    SECONDS,
    SECONDS_OR_ZERO,
    FiniteRange,
    in_options,
    method_path,
    read_text,
    refuse_options,
    utf8_paths,
)
from .recording.command import save_resources
from .recording.sources import from_control_plane
from .rehearsal.command import rehearse
from .running.access import ACCESS_OPTIONS, Access, access_options
from .running.commands import COMMANDS, checked
from .running.program import Program
from .running.show import run
from .summaries import SummaryGroup


def ip_address(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return an IP address without brackets; `localhost` is 127.0.0.1."""
    host = "127.0.0.1" if value == "localhost" else value.strip("[]")
    if not is_ip(host):
        raise click.BadParameter(f"{value!r} is no IP address of this machine, such as 127.0.0.1, 0.0.0.0 or ::1")
    return host


class _Commands(SummaryGroup):
    """The commands. One that ends by Ctrl-C, or whose output cannot be written, has no answer, and no traceback.

    A command that goes on until it is stopped has an exit code of its own for that.
    """

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except OSError as error:  # of --help, or of what click itself prints to stderr
            if (lost := output_error(error)) is None:
                raise
            give_up_output(lost)
            sys.exit(UNREACHABLE)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, OSError, BaseExceptionGroup) as error:
            if (lost := output_error(error)) is not None:
                give_up_output(lost)
            elif not all(isinstance(each, KeyboardInterrupt) for each in leaves(error)):
                raise
        ctx.exit(UNREACHABLE)


@click.group(cls=_Commands)
@click.version_option(trxds.__version__, prog_name="trxds")
@click.pass_context
def main(context: click.Context) -> None:
    """Tools for proxyless gRPC with xDS."""
    if os.environ.get("NO_COLOR"):  # https://no-color.org; where it is not set, a terminal has colours and a pipe none
        context.color = False
    # A name of a file need not be text, and a terminal need not know every character.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


for _command in (*COMMANDS, call, rehearse):
    main.add_command(_command)


@main.command()
@click.option(
    "--seconds", type=FiniteRange(min=1), help="How long the traffic runs.  [default: 9; with --live, for ever]"
)
@click.option("--without-session-filter", is_flag=True, help="Leave affinity out, to see the promise broken (exit 1).")
@click.option("--live", is_flag=True, help="Serve the live page, and begin anew each minute until interrupted.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="With --live: the page's TCP port; 0 takes a free one."
)
def demo(seconds: float | None, without_session_filter: bool, live: bool, port: int) -> None:
    """Sessions keep their backends while the configuration changes under them.

    Starts a control plane and six backends on loopback, sends traffic with and without sessions, changes
    everything, and exits 0 only if no RPC failed and no session moved without need.
    """
    if port and not live:
        raise click.UsageError("--port needs --live, whose page it is for")
    console = Console()
    sticky = not without_session_filter
    verdict = None
    code = 0
    try:
        with watching(console) as screen:
            if live:
                verdict = trio.run(run_live, seconds, sticky, screen, port, lambda url: show_page(console, url))
            else:
                verdict = trio.run(run_demo, seconds or 9.0, sticky, screen)
    except* KeyboardInterrupt:
        click.echo("stopped")
        code = SUCCESS if live else UNREACHABLE  # there is no verdict
    except* SystemExit:  # of rich: the reader of our lines has left, as `| head` does
        code = UNREACHABLE
    except* OSError as errors:
        if output_error(errors) is not None:
            raise
        click.echo(f"Error: {cannot_listen(f'127.0.0.1:{port}', errors)}", err=True)
        code = 1
    if verdict is not None:
        show_verdict(console, verdict)
        code = 0 if verdict.holds else 1
    sys.exit(code)  # not in an `except*`: early Pythons 3.11 make a group of what is raised there


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=18000,
    show_default=True,
    help="TCP port; 0 takes a free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="IP",
    callback=ip_address,
    help="IP address to listen at; 0.0.0.0 or :: is all of this machine's.",
)
def plane(file: Path, port: int, host: str) -> None:
    """Serve the xDS resources of FILE, a YAML list, as an ADS server; push when the file changes.

    Each resource is in proto-JSON form with its @type. Errors in FILE are reported by line and field; until
    they are repaired, the last good version is served.
    """
    good = True
    try:
        good = trio.run(serve_file, file, port, click.echo, host)
    except* KeyboardInterrupt:
        click.echo("stopped")
    except* OSError as errors:  # reading the file raises none
        if output_error(errors) is not None:
            raise
        click.echo(f"Error: {cannot_listen(join_address(host, port), errors)}", err=True)
        good = False
    sys.exit(0 if good else 1)


def network_to_servers() -> Network:
    """Return the network by which channels reach control planes: with the environment's proxy, if it has one."""
    return server_network(TcpNetwork(), proxy_finder(None, os.environ))


@main.command()
@click.argument("bootstrap", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--connect", is_flag=True, help="Also ask its servers, and say what they answer.")
@click.option("--target", metavar="xds:///NAME", help="With --connect: ask for the Listener of this target.")
@click.option("--within", type=SECONDS, default="5s", show_default=True, help="How long a server has for its answer.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --connect and --target: write the target's resources, without secrets, for `trxds rehearse`.",
)
def check(bootstrap: Path, connect: bool, target: str | None, within: float, save: Path | None) -> None:
    """Check the file BOOTSTRAP and print its errors and warnings, line by line.

    Exits 1 if there is an error in the file, or if a server does not answer as it should.
    """
    if save is not None and not (connect and target):
        raise click.UsageError("--save needs --connect and --target, whose resources it writes")
    if target is not None and not connect:
        raise click.UsageError("--target needs --connect, which asks for it")
    report = check_file(bootstrap)
    for finding in report.findings:
        click.echo(f"{bootstrap}:{finding}")
    click.echo(f"{bootstrap}: {report}")
    if report.bootstrap is None:
        sys.exit(1)
    if connect:
        try:
            answers = trio.run(check_servers, report.bootstrap, network_to_servers(), target, within)
        except (ValueError, BootstrapError) as error:
            raise click.BadParameter(str(error), param_hint="--target") from error
        for uri, answer in answers.items():
            click.echo(f"{uri}: {'' if answer.is_good else 'error: '}{answer.text}")
        is_answered = any(answer.is_good for answer in answers.values())
        if save is not None and not is_answered:
            click.echo(f"{save}: nothing was saved, because no server gives an answer", err=True)
        elif save is not None and target is not None:
            save_resources(
                save, target, partial(from_control_plane, report.bootstrap, target, network_to_servers(), within)
            )
        sys.exit(0 if all(answer.is_good for answer in answers.values()) else 1)


@main.command()
@click.argument("target")
@click.argument("method", metavar="/package.Service/Method", callback=method_path)
@click.option(
    "-H",
    "headers",
    multiple=True,
    metavar="KEY:VALUE",
    help="Metadata; KEY-bin:BASE64; @FILE has lines of it; may be repeated.",
)
@click.option("--cookie", "cookies", multiple=True, metavar="NAME=VALUE", help="A cookie of the call; may be repeated.")
@click.option(
    "--bootstrap",
    type=click.Path(exists=True, dir_okay=False),
    help=BOOTSTRAP_HELP,
)
@click.option(
    "--within",
    type=SECONDS,
    default="20s",
    show_default=True,
    help="How long to wait for a configuration; after 15s it says what is missing.",
)
@click.option(
    "--settle",
    type=SECONDS_OR_ZERO,
    default="1s",
    show_default=True,
    help="How long hosts have to connect, if policies connect them.",
)
@click.option(
    "--credentials",
    "way",
    type=click.Choice(list(CREDENTIALS)),
    default="insecure",
    show_default=True,
    help="How the program reaches hosts; xds is xds_credentials(insecure()).",
)
@click.option(
    "--service-config",
    type=click.File(encoding="utf-8"),
    help="The program's service config, if its target has no control plane.",
)
@click.option(
    "--admin", "address", metavar="ADDRESS", callback=checked, help="Ask the running program there about its channel."
)
@access_options
@click.option("--json", "as_json", is_flag=True, help="Plain data instead of lines.")
def explain(
    target: str,
    method: str,
    headers: tuple[str, ...],
    cookies: tuple[str, ...],
    bootstrap: str | None,
    within: float,
    settle: float,
    way: str,
    service_config: TextIO | None,
    address: str | None,
    access: Access,
    as_json: bool,
) -> None:
    """Explain where a call would go and why, without sending it.

    Prints the routes that do not match and the one that does, the cluster, time limit, filters and sessions, then each
    policy down to the host. The command uses a channel of its own, so hosts that a policy connects only for a call are
    IDLE. With --admin it asks the program's own channel, which has connections and RPCs in flight.
    Exits 0 if the call would reach a host or wait for one, 1 if it would fail, 3 if there is no configuration.
    """
    try:
        metadata = call_metadata(headers, cookies)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if address is None:
        refuse_options(ACCESS_OPTIONS, "is for a running program; name its address by --admin too")
    else:
        own = "bootstrap", "within", "settle", "way", "service_config"
        refuse_options(own, "is for a channel of this command's own; leave it or --admin out")
        sys.exit(run(show_in_program, Program(address, access), target, method, metadata, as_json))
    try:
        config = read_text(service_config, "--service-config") if service_config is not None else None
        arguments = target, method, metadata, bootstrap, within, settle, CREDENTIALS[way], config
        code = run(show_explanation, as_json, *arguments)
    except ValueError as error:
        raise click.UsageError(in_options(str(error))) from error
    except BootstrapError as error:
        raise click.UsageError(str(error)) from error
    sys.exit(code)


@main.command()
@click.argument("value")
@click.option("--json", "as_json", is_flag=True, help="Plain data instead of lines.")
def cookie(value: str, as_json: bool) -> None:
    """Print the content of a session cookie's VALUE: hosts, cluster, expiry (A55, A60; Envoy's forms too).

    Exits 1 if it names no host, and says why.
    """
    try:
        read = read_cookie(value, wall_clock()())
    except ValueError as error:
        click.echo(f"VALUE, of {plural(len(value), 'character')}, names no host: {error}", err=True)
        sys.exit(1)
    click.echo(json.dumps(as_plain_data(read), indent=1) if as_json else "\n".join(as_lines(read)))


@main.command()
@click.argument("protos", nargs=-1, required=True, callback=utf8_paths)
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder to write to.")
@click.option(
    "-I",
    "--proto-path",
    "includes",
    multiple=True,
    metavar="DIRECTORY",
    callback=utf8_paths,
    help="Where protos and imports are looked for; may be repeated.  [default: .]",
)
@click.option("--relative", is_flag=True, help="Write relative imports between these files, for a package.")
@click.option("--sync", is_flag=True, help="Write stubs for threads too, _trxds_sync.py.")
@click.option("--servicers", is_flag=True, help="Write types of servicers for tests too, _trxds_servicers.py.")
def generate(
    protos: tuple[str, ...], out: Path, includes: tuple[str, ...], relative: bool, sync: bool, servicers: bool
) -> None:
    """Generate Python for PROTOS: messages (_pb2.py, _pb2.pyi) and typed stubs of their services (_trxds.py).

    Needs the extra `trxds[generate]`, which installs protoc. Writes nothing if protoc finds an error.
    """
    try:
        done = generate_stubs(protos, out, includes, Options(relative, sync, servicers))
    except GenerateError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or out}: {error.strerror}") from error
    for path in done.written:
        click.echo(path)
    for path in done.unreadable:
        click.echo(f"{path} is left out: a name in it is a keyword of Python, so protoc's text is none", err=True)
