"""This file has the credentials of a channel's connections: insecure, TLS, or the control plane's choice (A29)."""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass
from typing import TypeAlias

from trxds.transport.certificates import REFRESH_INTERVAL, CertificateFiles
from trxds.transport.transport_credentials import INSECURE, Credentials, Insecure, Tls

Path: TypeAlias = str | os.PathLike[str]

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


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
    roots: Path | bytes | None = None,
    certificate: Path | None = None,
    private_key: Path | None = None,
    refresh_interval: float = REFRESH_INTERVAL,
    server_name: str = "",
) -> Tls:
    """Return credentials with TLS for every host, whatever the control plane says.

    Pass either a `context` or PEM files. Each host must agree to HTTP/2 by ALPN.

    Args:
        context: One for clients; its ALPN protocols become "h2" alone.
        roots: The certificates to trust: a path, or the PEM text itself as bytes. The system's by default.
        certificate: The path of the client's own certificate, for mutual TLS.
        private_key: The path of its key.
        refresh_interval: The files are read again after so many seconds.
        server_name: The name that each host must prove, in place of the channel's target.

    Raises:
        ValueError: There are a context and files, one of `certificate` and `private_key` without the other, or PEM that
            cannot be used.
        TypeError: An argument has another type.
    """
    if context is not None:
        _check_context(context)
        if roots or certificate or private_key:
            raise ValueError("a context has its own certificates; give either it or files")
        # RFC 9113 §3.2: HTTP/2 over TLS is selected by ALPN "h2".
        context.set_alpn_protocols(["h2"])
        return Tls(context, server_name)
    if bool(certificate) != bool(private_key):
        raise ValueError("certificate and private_key need each other; give both or neither")
    pem = _pem_roots(roots) if isinstance(roots, bytes) else ""
    paths = (
        "" if isinstance(roots, bytes) else _path("roots", roots, "pass PEM text as bytes"),
        _path("certificate", certificate, _FILES_ONLY),
        _path("private_key", private_key, _FILES_ONLY),
    )
    return Tls(CertificateFiles(*paths, refresh_interval, pem), server_name)


_FILES_ONLY = "Python's ssl reads it from a file only; write one, or pass an ssl.SSLContext"


def _check_context(context: object) -> None:
    if not isinstance(context, ssl.SSLContext):
        # Bytes are what other libraries take for their roots; the value is not shown, for it may be a private key.
        remedy = "roots to trust are tls(roots=...), PEM as bytes or the path of a file"
        raise TypeError(f"tls takes an ssl.SSLContext, not {type(context).__name__}; {remedy}")


def _pem_roots(pem: bytes) -> str:
    """Return the certificates of a PEM text, without what stands between them: it need not be ASCII."""
    certificates = "\n".join(each.decode("ascii", "replace") for each in _CERTIFICATE.findall(pem))
    if not certificates:
        raise ValueError("roots are bytes without a PEM certificate (BEGIN CERTIFICATE); write a path as str")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError) as error:
        reason = (getattr(error, "reason", None) or str(error)).lower().replace("_", " ")
        raise ValueError(f"roots are bytes of PEM that cannot be used: {reason}") from None
    return certificates


def _path(name: str, path: object, remedy: str) -> str:
    """Return the path as text; an error for anything else, which never repeats it: it may be a private key."""
    if not path and not isinstance(path, bytes):
        return ""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} is the path of a PEM file, not {type(path).__name__}; {remedy}")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"{name} is a path whose text is bytes; write it as str")
    if "-----BEGIN" in text:
        raise ValueError(f"{name} is PEM text in place of the path of a file; {remedy}")
    return text


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
