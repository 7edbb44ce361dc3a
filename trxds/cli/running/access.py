"""What a command shows to a program's admin surface, and how it reaches one that has TLS."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import click

from trxds.transport.transport_credentials import Tls

from ..tls_options import tls_credentials, tls_options

_TOKEN = re.compile(r"[A-Za-z0-9._~-]*")  # what a program may give as its token, of any length


@dataclass(frozen=True, slots=True)
class Access:
    """`token` is the program's, empty for none; `tls` is None for a surface without TLS."""

    token: str = field(default="", repr=False)
    tls: Tls | None = None

    @property
    def refusal(self) -> str:
        """Why a program that wants a token has refused this."""
        problem = "the token is not the program's" if self.token else "the program wants its token"
        return f"{problem}; give that by --token or TRXDS_ADMIN_TOKEN"


ACCESS_OPTIONS = ("token", "has_tls", "roots", "certificate", "private_key", "server_name")


def checked_token(context: click.Context, parameter: click.Parameter, token: str) -> str:
    """Return the token. One that no program can have is a usage error, which does not show it."""
    if not _TOKEN.fullmatch(token):
        raise click.BadParameter("it has a character that no token has; is there a line end behind it?")
    return token


def access_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of all commands that ask a running program; the command gets them as `access`."""

    @wraps(command)
    def with_access(
        *arguments: Any,
        token: str,
        has_tls: bool,
        roots: str | None,
        certificate: str | None,
        private_key: str | None,
        server_name: str,
        **options: Any,
    ) -> None:
        files = roots, certificate, private_key, server_name
        tls = tls_credentials(*files) if has_tls or any(files) else None
        command(*arguments, access=Access(token, tls), **options)

    added = tls_options("the program proves", "the address's")(with_access)
    added = click.option(
        "--tls",
        "has_tls",
        is_flag=True,
        help="Reach the program by TLS, as its Admin(tls=...) wants.  "
        "[implied by --roots, --certificate and --server-name]",
    )(added)
    return click.option(
        "--token",
        envvar="TRXDS_ADMIN_TOKEN",
        default="",
        callback=checked_token,
        help="The program's token, if it wants one.",
        show_envvar=True,
    )(added)
