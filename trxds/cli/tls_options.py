"""The options for TLS that several commands have, checked before anything is connected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

import trxds
from trxds.transport.certificates import CertificateFiles, client_context
from trxds.transport.spiffe import is_spiffe_id
from trxds.transport.transport_credentials import Tls

from .parameters import in_options

F = TypeVar("F", bound=Callable[..., Any])

_FILE = click.Path(exists=True, dir_okay=False)


def tls_options(peer: str, default: str) -> Callable[[F], F]:
    """Add --roots, --certificate, --private-key and --server-name.

    `peer` is what proves its name: "hosts prove"; `default` is the name that it proves otherwise: "the target's".
    """

    def add(command: F) -> F:
        for option in (
            click.option(
                "--server-name",
                default="",
                metavar="NAME",
                help=f"The name that {peer} by TLS, if it is not {default}.",
            ),
            click.option("--private-key", type=_FILE, help="PEM file of its key."),
            click.option("--certificate", type=_FILE, help="PEM file of the client's certificate, for mutual TLS."),
            click.option("--roots", type=_FILE, help="PEM file of the certificates to trust.  [default: the system's]"),
        ):
            command = option(command)
        return command

    return add


def tls_credentials(roots: str | None, certificate: str | None, private_key: str | None, server_name: str) -> Tls:
    """Return credentials with the values of these options. What cannot be used is a usage error."""
    if is_spiffe_id(server_name):
        raise click.UsageError(
            "--server-name: a SPIFFE ID is proved by a bundle map, which no option names; give a DNS name"
        )
    if certificate and not private_key:
        raise click.UsageError("--certificate needs --private-key, the file of its key")
    if private_key and not certificate:
        raise click.UsageError("--private-key needs --certificate, the file of its certificate")
    # They are read with the first connection, which would take what cannot be used for a peer that cannot be reached.
    if roots:
        _check_files("--roots", CertificateFiles(roots))
    if certificate and private_key:
        _check_files("--certificate, --private-key", CertificateFiles("", certificate, private_key))
    try:
        return trxds.tls(roots=roots, certificate=certificate, private_key=private_key, server_name=server_name)
    except ValueError as error:
        raise click.UsageError(in_options(str(error))) from None


def _check_files(options: str, files: CertificateFiles) -> None:
    try:
        client_context(files)
    except OSError as error:
        raise click.UsageError(f"{options}: {error}") from None
