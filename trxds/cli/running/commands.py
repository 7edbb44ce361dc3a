"""The commands that look into a running program, and their options."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import click
import trio
from msgspec import structs

from trxds.admin.address import Admin
from trxds.core.status import StatusCode

from ..exit_codes import SUCCESS
from ..listening import cannot_listen
from ..lost_output import output_error
from ..recording.command import save_resources
from ..recording.sources import from_program
from .access import Access, access_options
from .page_relay import NamedProgram, named_programs, serve_programs
from .pages import HOSTS, LB, RUOK, SESSIONS, XDS, Page, tree_lines
from .program import Program, is_address
from .show import run, show_on, show_once, show_tap
from .taps import Filter

Command = Callable[..., None]


def checked(context: click.Context, parameter: click.Parameter, address: str | None) -> str | None:
    """Return the address. A malformed one is a usage error, unlike a program that does not run."""
    if address is not None and not is_address(address):
        raise click.BadParameter(f"{address!r} is not unix:/path or host:port, as in 127.0.0.1:9901")
    return address


def _of_a_program(command: Command) -> Command:
    """Add the options of all these commands: the program, and the form of the output."""
    command = click.option("--json", "as_json", is_flag=True, help="One JSON value on each line.")(command)
    return click.argument("address", envvar="TRXDS_ADMIN", callback=checked)(access_options(command))


def _page(command: Command) -> Command:
    watch = click.option("--watch", is_flag=True, help="Show it again whenever something has changed.")
    return _of_a_program(watch(command))


def _show(page: Page, address: str, access: Access, as_json: bool, watch: bool) -> None:
    if watch:
        sys.exit(run(show_on, Program(address, access), page, as_json, stopped=SUCCESS))
    sys.exit(run(show_once, Program(address, access), page, as_json))


@click.command()
@_page
@click.option("--all", "everything", is_flag=True, help="Show all endpoints, not only the first 40.")
def lb(address: str, access: Access, as_json: bool, watch: bool, everything: bool) -> None:
    """Show the load balancing tree of the program at ADDRESS: states, picks, remarks of each policy, and endpoints.

    ADDRESS is the program's `open_channel(admin=...)`, or TRXDS_ADMIN. Exits 1 if a cluster cannot serve.
    """
    _show(structs.replace(LB, lines=partial(tree_lines, everything=everything)), address, access, as_json, watch)


@click.command()
@_page
@click.option(
    "--by-host", is_flag=True, help="Show the hosts: how many sessions each has, and its share of its cluster's."
)
def sessions(address: str, access: Access, as_json: bool, watch: bool, by_host: bool) -> None:
    """Show the open sessions of the program at ADDRESS: host, age, calls, moves, and why each moved last."""
    _show(HOSTS if by_host else SESSIONS, address, access, as_json, watch)


@click.command()
@_page
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the resources themselves to a file, without secrets, for `trxds rehearse`.",
)
def xds(address: str, access: Access, as_json: bool, watch: bool, save: Path | None) -> None:
    """Show the xDS resources of the program at ADDRESS: state, version, age and error.

    Exits 1 if a resource has an error.
    """
    if save is not None:
        if watch or as_json:
            raise click.UsageError("--save writes a file and shows nothing; leave --watch and --json out")
        save_resources(save, f"the program at {address}", partial(from_program, address, access))
        return
    _show(XDS, address, access, as_json, watch)


@click.command()
@_page
def ruok(address: str, access: Access, as_json: bool, watch: bool) -> None:
    """Show whether all channels of the program at ADDRESS can serve, and the reason if not.

    Exits 0 if they can, 1 if not, and 3 if the program cannot be reached.
    """
    _show(RUOK, address, access, as_json, watch)


@click.command()
@_of_a_program
@click.option("--method", metavar="PATTERN", help="Show calls of these methods only: '/shop.Cart/*'.")
@click.option("--cluster", metavar="PATTERN", help="Show calls of these clusters only: 'cart'.")
@click.option(
    "--host", metavar="PATTERN", help="Show calls to these hosts only: '10.0.0.1:*'; '' is for picks without a host."
)
@click.option("--session", metavar="PATTERN", help="Show calls of these sessions only: 'shop/3'.")
@click.option(
    "--status", metavar="PATTERN", help="Show ends of calls with this status, in place of picks: UNAVAILABLE, OK, *."
)
@click.option("--count", type=click.IntRange(1), help="Stop after so many lines.")
@click.option("--metadata", is_flag=True, help="Show the values of calls' metadata, if the program allows it.")
@click.option("--watch", is_flag=True, hidden=True, help="It always does.")
def tap(
    address: str,
    access: Access,
    as_json: bool,
    method: str | None,
    cluster: str | None,
    host: str | None,
    session: str | None,
    status: str | None,
    count: int | None,
    metadata: bool,
    watch: bool,
) -> None:
    """Show each pick of the program at ADDRESS as it happens, with the reason, and the calls that fail.

    Calls never wait for this command: events that it is too slow for are counted and left out.
    """
    if status is not None and not any(fnmatchcase(each.name, status.upper()) for each in StatusCode):
        names = ", ".join(each.name for each in StatusCode)
        raise click.BadParameter(f"{status!r} matches no status; there are {names}", param_hint="--status")
    wanted = Filter(method, cluster, host, session, status)
    sys.exit(run(show_tap, Program(address, access), wanted, metadata, count, as_json, stopped=SUCCESS))


@click.command()
@click.argument("programs", nargs=-1, required=True, metavar="[NAME=]ADDRESS...")
@access_options
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The page's TCP port, on loopback; 0 takes a free one."
)
def live(programs: tuple[str, ...], access: Access, port: int) -> None:
    """Serve one live page for the running programs at these addresses, until interrupted.

    NAME is how the page calls a program; without it that is its address. The printed URL has a token of its own,
    without which nobody on this machine can read the page.
    """
    try:
        named = named_programs(programs, access)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="ADDRESS") from error
    problem = ""
    try:
        trio.run(_serve_live, named, Admin(f"127.0.0.1:{port}", secrets.token_urlsafe()))
    except* KeyboardInterrupt:
        click.echo("stopped")
    except* OSError as errors:
        if output_error(errors) is not None:
            raise
        problem = cannot_listen(f"127.0.0.1:{port}", errors)
    if problem:  # not in an `except*`, which would make a group of it
        raise click.ClickException(problem)


async def _serve_live(named: tuple[NamedProgram, ...], admin: Admin) -> None:
    async with serve_programs(named, admin) as url:
        click.echo(url)
        await trio.sleep_forever()


COMMANDS = (lb, live, ruok, sessions, tap, xds)
