"""The commands and their options; what they do is next door."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import trio
from rich.console import Console

import trxds

from .demo.run import run_demo
from .demo.screen import show_verdict, watching
from .plane import serve_file


@click.group()
@click.version_option(trxds.__version__, prog_name="trxds")
def main() -> None:
    """Tools for proxyless gRPC with xDS."""


@main.command()
@click.option("--seconds", default=9.0, show_default=True, help="How long the traffic runs.")
@click.option("--without-session-filter", is_flag=True, help="Leave affinity out, to see the promise broken (exit 1).")
def demo(seconds: float, without_session_filter: bool) -> None:
    """Sessions keep their backends while the configuration changes under them.

    Starts a control plane and six backends on loopback, sends traffic with and without sessions, changes
    everything, and exits 0 only if no RPC failed and no session moved without need.
    """
    console = Console()
    with watching(console) as screen:
        verdict = trio.run(run_demo, seconds, not without_session_filter, screen)
    show_verdict(console, verdict)
    sys.exit(0 if verdict.holds else 1)


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--port", default=18000, show_default=True, help="TCP port on 127.0.0.1; 0 takes a free one.")
def plane(file: Path, port: int) -> None:
    """Serve the xDS resources of FILE, a YAML list, as an ADS server; push when the file changes.

    Each resource is in proto-JSON form with its @type. A bad FILE is reported by line and field, and what was
    good last goes on being served.
    """
    good = True
    try:
        good = trio.run(serve_file, file, port, click.echo)
    except* KeyboardInterrupt:
        click.echo("stopped")
    sys.exit(0 if good else 1)
