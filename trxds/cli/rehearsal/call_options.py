"""The texts of `--method` and `-H`: the calls that a rehearsal makes, with their metadata."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from trxds.cli.explain import call_metadata
from trxds.client.method import checked_path
from trxds.core import metadata as md
from trxds.core.json_reader import unicode_problem

from .plan import Call


def parse_call(text: str) -> Call:
    """Return the call of `/package.Service/Method KEY:VALUE ...`; a value with blanks is in quotes, as in a shell.

    `ValueError` says what is wrong.
    """
    if unicode_problem(text):
        raise ValueError("it is no UTF-8 text")
    try:
        path, *headers = shlex.split(text)
    except ValueError as error:
        # Its own words for what is missing: an empty text has no path.
        reason = f"{error}".lower() if text.strip() else "it is empty"
        raise ValueError(f"{reason}; write /package.Service/Method, and KEY:VALUE behind it") from None
    path = checked_path(path)
    try:
        return Call(path, parse_metadata(headers, "KEY:VALUE"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def parse_metadata(headers: Iterable[str], name: str = "-H") -> tuple[tuple[str, str], ...]:
    """Return the metadata of KEY:VALUE texts, as `trxds call -H` reads them. `ValueError` calls them by `name`."""
    checked = md.check(call_metadata(headers, (), name))
    return tuple((key, md.as_text(value)) for key, value in checked)
