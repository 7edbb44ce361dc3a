"""This file has the credentials of a channel's connections: insecure, TLS, or the control plane's choice (A29)."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from typing import TypeAlias

from trxds.transport.certificates import REFRESH_INTERVAL, CertificateFiles
from trxds.transport.transport_credentials import INSECURE, Credentials, Insecure, Tls

Path: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class XdsCredentials:
    """Credentials that the control plane chooses; `xds_credentials` makes them."""

    fallback: Credentials


ChannelCredentials: TypeAlias = Credentials | XdsCredentials


def insecure() -> Insecure:
    """Return credentials without TLS for every host, whatever the control plane says. This is the default."""
    return INSECURE


def tls(
    context: ssl.SSLContext | None = None,
    *,
    roots: Path | None = None,
    certificate: Path | None = None,
    private_key: Path | None = None,
    refresh_interval: float = REFRESH_INTERVAL,
    server_name: str = "",
) -> Tls:
    """Return credentials with TLS for every host, whatever the control plane says.

    Pass either a `context` for clients, whose ALPN protocols become "h2" alone, or PEM files: `roots` to trust (the
    system's by default), and `certificate` with `private_key` for mutual TLS. Files are read again after
    `refresh_interval` seconds. Each host must prove the channel's target name, or `server_name`. Raises `ValueError`
    for a context with files, or one of `certificate` and `private_key` without the other.
    """
    if context is not None:
        if roots or certificate or private_key:
            raise ValueError("a context has its own certificates; give either it or files")
        # RFC 9113 §3.2: HTTP/2 over TLS is selected by ALPN "h2".
        context.set_alpn_protocols(["h2"])
        return Tls(context, server_name)
    if bool(certificate) != bool(private_key):
        raise ValueError("certificate and private_key need each other; give both or neither")
    files = CertificateFiles(_text(roots), _text(certificate), _text(private_key), refresh_interval)
    return Tls(files, server_name)


def _text(path: Path | None) -> str:
    return os.fspath(path) if path else ""


def checked_credentials(credentials: object) -> ChannelCredentials:
    """Return the credentials; `TypeError` for another type, such as the credentials of another library."""
    if not isinstance(credentials, Insecure | Tls | XdsCredentials):
        kinds = "trxds.insecure(), trxds.tls(...) or trxds.xds_credentials(...)"
        raise TypeError(f"credentials are {kinds}, not {type(credentials).__name__}")
    return credentials


def xds_credentials(fallback: Credentials) -> XdsCredentials:
    """Return credentials as each cluster's `transport_socket` configures them (A29); `fallback` if it has none.

    The fallback applies only there: where the control plane configures TLS and it fails, the connection fails.
    """
    if not isinstance(fallback, Insecure | Tls):
        raise TypeError(f"the fallback is trxds.insecure() or trxds.tls(...), not {type(fallback).__name__}")
    return XdsCredentials(fallback)
