"""The options of `trxds call`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TextIO

import click

import trxds
from trxds.cli.exit_codes import SUCCESS
from trxds.cli.explain import call_metadata
from trxds.cli.parameters import BOOTSTRAP_HELP, SECONDS, read_text, utf8_paths, utf8_text
from trxds.cli.running.show import run
from trxds.cli.tls_options import tls_credentials, tls_options
from trxds.client.credentials import ChannelCredentials
from trxds.core import metadata as md

from .caller import CallPlan
from .compile_protos import compile_protos
from .data import read_data
from .output import Output
from .printable import printable
from .run import Plan, SessionPlan, run_plan
from .schema import CallError, FileSchema, read_descriptor_set

_FILE = click.Path(exists=True, dir_okay=False)


@click.command()
@click.argument("target")
@click.argument("method", required=False, default="", metavar="[METHOD]", callback=utf8_text)
@click.option(
    "-d", "--data", metavar="JSON", help="The request, or several: JSON, @FILE, or - for stdin.  [default: {}]"
)
@click.option(
    "-H",
    "--metadata",
    "headers",
    multiple=True,
    metavar="KEY:VALUE",
    help="Metadata; KEY-bin:BASE64; @FILE has lines of it; may be repeated.",
)
@click.option("--cookie", "cookies", multiple=True, metavar="NAME=VALUE", help="A cookie of the call; may be repeated.")
@click.option("--timeout", type=SECONDS, help="Deadline of each call.  [default: no limit]")
@click.option("--wait-for-ready", is_flag=True, help="Wait for a host instead of failing while there is none.")
@click.option(
    "--proto",
    "protos",
    multiple=True,
    type=_FILE,
    callback=utf8_paths,
    help="A .proto file with the types, in place of reflection; may be repeated.",
)
@click.option(
    "-I",
    "--import-path",
    "includes",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    help="With --proto: a folder of imports; may be repeated.  [default: .]",
)
@click.option("--descriptor-set", "descriptor_set", type=_FILE, help="A compiled descriptor set with the types.")
@click.option("--list", "lists", is_flag=True, help="List the services, or the methods of the service METHOD.")
@click.option(
    "--describe", "describes", is_flag=True, help="Describe METHOD, which may also be a service or a message."
)
@click.option("--session", "in_session", is_flag=True, help="Make the calls in one session.")
@click.option(
    "--session-token",
    envvar="TRXDS_SESSION_TOKEN",
    show_envvar=True,
    metavar="TOKEN",
    help="Continue the session of this token.",
)
@click.option(
    "--session-key", type=click.File("rb"), metavar="FILE", help="The file whose bytes are the key that signs tokens."
)
@click.option("--print-token", is_flag=True, help="Print the session's token at the end. It is a credential.")
@click.option(
    "--repeat", type=click.IntRange(min=1), default=1, metavar="N", help="Make the call so many times, and count hosts."
)
@click.option("--verbose", "-v", is_flag=True, help="Print the host, metadata and the session's host too, to stderr.")
@click.option(
    "--explain/--no-explain",
    "explains",
    default=None,
    help="Print where the call goes, and why.  [default: if it fails]",
)
@click.option("--defaults", is_flag=True, help="Print fields of replies that have their default value too.")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON for each reply, and for a failure.")
@click.option("--bootstrap", type=_FILE, help=BOOTSTRAP_HELP)
@click.option(
    "--service-config",
    type=click.File(encoding="utf-8"),
    help="The program's service config, if its target has no control plane.",
)
@click.option(
    "--within",
    type=SECONDS,
    default="20s",
    show_default=True,
    help="How long to wait for a configuration, and for reflection.",
)
@click.option(
    "--authority", default="", metavar="NAME", help="The :authority of calls, and the name that hosts prove by TLS."
)
@click.option(
    "--credentials",
    "way",
    type=click.Choice(["insecure", "tls", "xds"]),
    help="How hosts are reached; xds lets the control plane decide.  "
    "[default: insecure, or tls with --roots, --certificate or --server-name]",
)
@tls_options("hosts prove", "the target's")
@click.option(
    "--max-receive-size", type=click.IntRange(min=1), metavar="BYTES", help="The largest reply.  [default: 4 MiB]"
)
def call(
    target: str,
    method: str,
    data: str | None,
    headers: tuple[str, ...],
    cookies: tuple[str, ...],
    timeout: float | None,
    wait_for_ready: bool,
    protos: tuple[str, ...],
    includes: tuple[str, ...],
    descriptor_set: str | None,
    lists: bool,
    describes: bool,
    in_session: bool,
    session_token: str | None,
    session_key: Any,
    print_token: bool,
    repeat: int,
    verbose: bool,
    explains: bool | None,
    defaults: bool,
    as_json: bool,
    bootstrap: str | None,
    service_config: TextIO | None,
    within: float,
    authority: str,
    way: str | None,
    roots: str | None,
    certificate: str | None,
    private_key: str | None,
    server_name: str,
    max_receive_size: int | None,
) -> None:
    """Call METHOD, package.Service/Method, at TARGET with requests as JSON, and print the replies as JSON.

    TARGET is that of a channel: xds:///NAME, HOST:PORT, unix:PATH and so on. Without METHOD, the services are listed;
    METHOD may be a service, whose methods are listed then. The server describes its types by reflection, if no files
    do. Methods of all four kinds can be called; several requests stand one after the other, or in a list.

    A failure is explained: the status with its details, and where the call goes and why. Exits 0 if all calls end with
    OK, 1 if a host fails one, 2 for a wrong command line or request, and 3 if no host is reached, or by Ctrl-C.
    """
    if lists and describes:
        raise click.UsageError("--list and --describe cannot be used together; leave one out")
    if data is not None and (lists or describes or not method):
        raise click.UsageError("-d is for a call; name METHOD, without --list and --describe")
    try:
        metadata = md.check(call_metadata(headers, cookies))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    options: dict[str, Any] = {
        "bootstrap": bootstrap,
        "authority": authority,
        "credentials": _credentials(way, roots, certificate, private_key, server_name),
    }
    if service_config is not None:
        options["service_config"] = read_text(service_config, "--service-config")
    if max_receive_size is not None:
        options["max_receive_size"] = max_receive_size
    try:
        plan = Plan(
            target,
            method,
            "describe" if describes else "list" if lists or not method else "call",
            options,
            _schema(protos, includes, descriptor_set),
            within,
            CallPlan(read_data(data), metadata, timeout, wait_for_ready or None, repeat, defaults, explains),
            _session(in_session, session_token, session_key, print_token),
        )
        code = run(run_plan, plan, Output(as_json, verbose), reader_left=SUCCESS)
    except CallError as error:
        # Without the usage that click prints for errors of the command line: a request has many lines of its own.
        click.echo(f"Error: {printable(str(error))}", err=True)
        code = error.code
    sys.exit(code)


def _schema(protos: tuple[str, ...], includes: tuple[str, ...], descriptor_set: str | None) -> FileSchema | None:
    if protos and descriptor_set:
        raise click.UsageError("--proto and --descriptor-set cannot be used together; leave one out")
    if includes and not protos:
        raise click.UsageError("-I is for --proto; name a .proto file too")
    if descriptor_set:
        return read_descriptor_set(Path(descriptor_set).read_bytes(), descriptor_set)
    return compile_protos(protos, includes) if protos else None


def _session(in_session: bool, token: str | None, key: Any, shows_token: bool) -> SessionPlan:
    if key is not None and token is None and not shows_token:
        raise click.UsageError("--session-key is for --session-token and --print-token; name one of them too")
    secret = key.read() if key is not None else None
    return SessionPlan(in_session or token is not None or shows_token, token, secret, shows_token)


def _credentials(
    way: str | None, roots: str | None, certificate: str | None, private_key: str | None, server_name: str
) -> ChannelCredentials:
    files = {"roots": roots, "certificate": certificate, "private_key": private_key, "server_name": server_name}
    named = [f"--{name.replace('_', '-')}" for name, value in files.items() if value]
    if way == "insecure" and named:
        verb = "is" if len(named) == 1 else "are"
        raise click.UsageError(f"{', '.join(named)} {verb} for TLS; say --credentials tls, or xds")
    is_tls = named or way == "tls"
    fallback = tls_credentials(roots, certificate, private_key, server_name) if is_tls else trxds.insecure()
    return trxds.xds_credentials(fallback) if way == "xds" else fallback
