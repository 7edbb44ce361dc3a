"""The option `--save` of `trxds check` and `trxds xds`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import click
import trio

from trxds.cli.exit_codes import UNREACHABLE

from .file import save
from .redaction import NamedResource
from .sources import RecordError


def save_resources(path: Path, source: str, fetch: Callable[[], Awaitable[list[NamedResource]]]) -> None:
    """Fetch resources and save them. Errors are printed, and end the command."""
    try:
        found = trio.run(fetch)
    except RecordError as error:
        click.echo(str(error), err=True)
        sys.exit(UNREACHABLE)
    try:
        saved = save(path, source, found)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}; nothing was saved") from error
    click.echo(saved)
