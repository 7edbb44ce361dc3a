"""TLS contexts from certificate files that are read again while they are in use, as files are rotated (A29, A65)."""

from __future__ import annotations

import logging
import math
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

_log = logging.getLogger("trxds.transport")

REFRESH_INTERVAL = 600.0  # seconds


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files of a TLS peer.

    `roots` may be the certificates themselves instead, in `roots_pem`. Without either the system's are trusted;
    without `certificate` and `private_key` no certificate is shown.

    `refresh_interval` is the time in seconds after which the files are read again.
    """

    roots: str = ""
    certificate: str = ""
    private_key: str = ""
    refresh_interval: float = REFRESH_INTERVAL
    roots_pem: str = field(default="", repr=False)


def client_context(files: CertificateFiles, *, check_hostname: bool = True) -> ssl.SSLContext:
    """Return a context for connections to peers that must show a certificate; `OSError` names the unusable file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = check_hostname
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # HTTP/2 forbids older versions (RFC 9113 §9.2)
    # gRPC needs HTTP/2, which a TLS peer selects by ALPN (RFC 9113 §3.2).
    context.set_alpn_protocols(["h2"])
    if files.roots_pem:
        context.load_verify_locations(cadata=files.roots_pem)
    elif files.roots:
        _load(f"the roots of {files.roots}", lambda: context.load_verify_locations(files.roots))
    else:
        context.load_default_certs()
    if files.certificate:
        what = f"the certificate of {files.certificate} with the key of {files.private_key}"
        # With an empty password OpenSSL fails for an encrypted key; otherwise it would ask at the terminal.
        _load(what, lambda: context.load_cert_chain(files.certificate, files.private_key, password=""))
    return context


def _load(what: str, load: Callable[[], object]) -> None:
    try:
        load()
    except ssl.SSLError as error:
        raise OSError(f"cannot use {what}: {(error.reason or str(error)).lower().replace('_', ' ')}") from None
    except OSError as error:
        raise OSError(f"cannot read {what}: {error.strerror or error}") from None
    except ValueError as error:  # the path has a NUL
        raise OSError(f"cannot read {what!r}: {error}") from None


class FreshContext:
    """The context made from files when they were last read.

    `current` returns it while it is fresh; otherwise the caller runs `read` in a thread and gives the result to `take`.
    New files that cannot be used (they are just being written, say) leave the last good context in force, and are read
    again for the next connection.
    """

    def __init__(self, files: CertificateFiles, *, check_hostname: bool = True) -> None:
        self._files = files
        self._check_hostname = check_hostname
        self._context: ssl.SSLContext | None = None
        self._read_at = -math.inf
        self._last_error = ""

    def current(self, now: float) -> ssl.SSLContext | None:
        """Return the context, or None if it is time to read the files."""
        return self._context if now < self._read_at + self._files.refresh_interval else None

    def read(self) -> ssl.SSLContext | OSError:
        """Read the files, and change nothing here. It can block on the disk, so it runs in a thread."""
        try:
            return client_context(self._files, check_hostname=self._check_hostname)
        except OSError as error:
            return error

    def take(self, result: ssl.SSLContext | OSError, now: float) -> ssl.SSLContext:
        """Return the context to use, given the result of `read`; `OSError` if there never was a good one."""
        if not isinstance(result, OSError):
            self._context, self._read_at, self._last_error = result, now, ""
            return result
        if self._context is None:
            raise result
        # One warning for each new error, not for each connection that finds the same files.
        if str(result) != self._last_error:
            _log.warning("%s; the files read before stay in use", result)
        self._last_error = str(result)
        return self._context
