"""This file has the credentials of a channel's connections: insecure, TLS, or the control plane's choice (A29)."""

from __future__ import annotations

import os
import re
import ssl
from typing import TypeAlias

from msgspec import Struct

from trxds.core.arguments import check_number, check_type
from trxds.transport.certificates import MIN_VERSION, REFRESH_INTERVAL, CertificateFiles, client_context, ssl_reason
from trxds.transport.file_content import FileContent, FileSource
from trxds.transport.spiffe import is_spiffe_id, parse_spiffe_id, why_unsupported
from trxds.transport.tls import is_peer_name
from trxds.transport.transport_credentials import INSECURE, Credentials, Insecure, Tls

Path: TypeAlias = str | os.PathLike[str]

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class XdsCredentials(Struct, frozen=True):
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
    certificate: Path | bytes | None = None,
    private_key: Path | bytes | None = None,
    refresh_interval: float = REFRESH_INTERVAL,
    server_name: str = "",
    min_version: ssl.TLSVersion = MIN_VERSION,
    crls: Path | bytes | None = None,
    spiffe_bundle_map: Path | bytes | None = None,
) -> Tls:
    """Return credentials with TLS for every host, whatever the control plane says.

    Pass either a `context` or PEM files, each as a path or as the PEM text itself in bytes. Each host must agree to
    HTTP/2 by ALPN.

    Args:
        context: An `ssl.SSLContext` for clients; its ALPN protocols become "h2" alone.
        roots: The certificates to trust. The system's by default.
        certificate: The client's own certificate, for mutual TLS.
        private_key: Its key, which must not be encrypted.
        refresh_interval: The files are read again after so many seconds.
        server_name: The name that each host must prove, in place of the channel's target. With a `spiffe_bundle_map` it
            may be a SPIFFE ID.
        min_version: The lowest version of TLS: TLS 1.2 or 1.3.
        crls: Certificate revocation lists: a directory, whose files may have any names, or one file (A69). Each
            certificate of a host's chain needs a valid list of its issuer; a missing or expired one refuses the host.
        spiffe_bundle_map: The authorities of SPIFFE trust domains, in place of `roots`: a JSON document (A87). Needs
            Python 3.13.

    Raises:
        ValueError: The context is for servers; arguments exclude each other (a context and files, `roots` and
            `spiffe_bundle_map`); `certificate` or `private_key` is given without the other; their content cannot be
            used; the interval is no number of seconds; no peer can have the name; or HTTP/2 forbids the version.
        TypeError: An argument has another type.
        RuntimeError: There is a `spiffe_bundle_map`, and this Python, older than 3.13, cannot check hosts by it.
    """
    files = (roots, certificate, private_key, crls, spiffe_bundle_map)
    if context is not None:
        _check_context(context)
        if any(files) or min_version is not MIN_VERSION:
            raise ValueError("a context has its own certificates and versions; give either it or files")
        # RFC 9113 §3.2: HTTP/2 over TLS is selected by ALPN "h2".
        context.set_alpn_protocols(["h2"])
        return Tls(context, _checked_name(server_name, None))
    if bool(certificate) != bool(private_key):
        raise ValueError("certificate and private_key need each other; give both or neither")
    if roots and spiffe_bundle_map:
        raise ValueError("roots and spiffe_bundle_map are two answers to one question; give one of them")
    seconds = "a number of seconds, 0 or more"
    check_number("refresh_interval", refresh_interval, lambda interval: interval >= 0, seconds)
    found = CertificateFiles(
        FileContent(_pem_roots(roots)) if isinstance(roots, bytes) else _path("roots", roots),
        _source("certificate", certificate),
        _source("private_key", private_key),
        refresh_interval,
        _required("spiffe_bundle_map", spiffe_bundle_map),
        _required("crls", crls),
        _checked_version(min_version),
    )
    if spiffe_bundle_map is not None and (unsupported := why_unsupported()) is not None:
        raise RuntimeError(f"spiffe_bundle_map {unsupported}")
    _check_contents(found)
    return Tls(found, _checked_name(server_name, spiffe_bundle_map))


def _source(name: str, value: Path | bytes | None) -> FileSource:
    return FileContent(value) if isinstance(value, bytes) else _path(name, value)


def _required(name: str, value: Path | bytes | None) -> FileSource:
    """Return the source; `ValueError` for an empty one, which would leave a check out that somebody wanted."""
    source = _source(name, value)
    if value is not None and not value:
        raise ValueError(f"{name} is empty; give a path or bytes, or leave it out")
    return source


def _checked_version(version: ssl.TLSVersion) -> ssl.TLSVersion:
    check_type("min_version", version, ssl.TLSVersion, "an ssl.TLSVersion, such as TLSv1_3")
    if version < MIN_VERSION:  # also MINIMUM_SUPPORTED
        raise ValueError(f"min_version is {version.name}, and HTTP/2 needs TLSv1_2 (RFC 9113); give that or TLSv1_3")
    return version


def _checked_name(name: str, spiffe_bundle_map: object) -> str:
    check_type("server_name", name, str, "the text of a name, empty for the target's own")
    if is_spiffe_id(name):
        parse_spiffe_id(name)
        if spiffe_bundle_map is None:
            raise ValueError(f"server_name {name!r} is a SPIFFE ID, which needs a spiffe_bundle_map; give both")
    # A connection would take such a name for a host that cannot be reached.
    elif name and not is_peer_name(name):
        raise ValueError(f"server_name {name!r} is no name that a peer can have; give a DNS name or an IP address")
    return name


def _check_contents(files: CertificateFiles) -> None:
    """Raise `ValueError` for content that cannot be used. Files are read with the first connection."""
    own = files.certificate, files.private_key
    contents = CertificateFiles(
        *(("", *own) if all(isinstance(each, FileContent) for each in own) else ("", "", "")),
        spiffe_bundle_map=files.spiffe_bundle_map if isinstance(files.spiffe_bundle_map, FileContent) else "",
        crls=files.crls if isinstance(files.crls, FileContent) else "",
    )
    if contents == CertificateFiles():
        return
    try:
        problems = client_context(contents).problems
    except OSError as error:
        raise ValueError(str(error)) from None
    if problems:
        raise ValueError("; ".join(problems))


def _check_context(context: object) -> None:
    if not isinstance(context, ssl.SSLContext):
        # Bytes are what other libraries take for their roots; the value is not shown, for it may be a private key.
        remedy = "roots to trust are tls(roots=...), PEM as bytes or the path of a file"
        raise TypeError(f"tls takes an ssl.SSLContext, not {type(context).__name__}; {remedy}")
    if context.protocol is ssl.PROTOCOL_TLS_SERVER:
        raise ValueError("the context of tls is for servers; make one for clients, by ssl.create_default_context()")


def _pem_roots(pem: bytes) -> bytes:
    """Return the certificates of a PEM text, without what stands between them: it need not be ASCII."""
    certificates = "\n".join(each.decode("ascii", "replace") for each in _CERTIFICATE.findall(pem))
    if not certificates:
        raise ValueError("roots are bytes without a PEM certificate (BEGIN CERTIFICATE); write a path as str")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"roots are bytes of PEM that cannot be used: {ssl_reason(error)}") from None
    return certificates.encode("ascii", "replace")


def _path(name: str, path: object) -> str:
    """Return the path as text; an error for anything else, which never repeats it: it may be a private key."""
    if not path:
        return ""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} is the path of a file, not {type(path).__name__}; pass its content as bytes")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"{name} is a path whose text is bytes; write it as str")
    if "-----BEGIN" in text:
        raise ValueError(f"{name} is PEM text in place of the path of a file; pass it as bytes")
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
    check_type("the fallback", fallback, (Insecure, Tls), "trxds.insecure() or trxds.tls(...)")
    return XdsCredentials(fallback)
