"""Certificates from files, read again while they are in use: they are rotated under running programs (A29, A65)."""

from __future__ import annotations

import logging
import math
import ssl
from collections.abc import Callable
from dataclasses import dataclass

_log = logging.getLogger("trxds.transport")

REFRESH_INTERVAL = 600.0  # seconds


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files. Without `roots` the system's are trusted; without `certificate` and `private_key` we are nobody.

    `refresh_interval`: after so many seconds the files are read again.
    """

    roots: str = ""
    certificate: str = ""
    private_key: str = ""
    refresh_interval: float = REFRESH_INTERVAL


def client_context(files: CertificateFiles, *, check_hostname: bool = True) -> ssl.SSLContext:
    """For connections to a peer that must have a certificate; `OSError` names the file that is no good."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = check_hostname
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # HTTP/2 allows nothing older (RFC 9113 9.2)
    context.set_alpn_protocols(["h2"])
    if files.roots:
        _load(f"the roots of {files.roots}", lambda: context.load_verify_locations(files.roots))
    else:
        context.load_default_certs()
    if files.certificate:
        what = f"the certificate of {files.certificate} with the key of {files.private_key}"
        # An empty password: nobody is there to be asked for one.
        _load(what, lambda: context.load_cert_chain(files.certificate, files.private_key, password=""))
    return context


def _load(what: str, load: Callable[[], object]) -> None:
    try:
        load()
    except ssl.SSLError as error:
        raise OSError(f"cannot use {what}: {(error.reason or str(error)).lower().replace('_', ' ')}") from None
    except OSError as error:
        raise OSError(f"cannot read {what}: {error.strerror or error}") from None
    except ValueError as error:  # a path with a NUL in it
        raise OSError(f"cannot read {what!r}: {error}") from None


class FreshContext:
    """The context of these files, as they were read last: `current`, or else `take` what `read` came to.

    New files that are no good (just being written, say) leave the last good context in force,
    and are looked at again for the next connection.
    """

    def __init__(self, files: CertificateFiles, *, check_hostname: bool = True) -> None:
        self._files = files
        self._check_hostname = check_hostname
        self._context: ssl.SSLContext | None = None
        self._read_at = -math.inf
        self._complaint = ""

    def current(self, now: float) -> ssl.SSLContext | None:
        """None if it is time to read the files."""
        return self._context if now < self._read_at + self._files.refresh_interval else None

    def read(self) -> ssl.SSLContext | OSError:
        """Changes nothing here, and takes as long as files take: for a thread."""
        try:
            return client_context(self._files, check_hostname=self._check_hostname)
        except OSError as error:
            return error

    def take(self, found: ssl.SSLContext | OSError, now: float) -> ssl.SSLContext:
        """The one to use. `OSError` if there never was a good one."""
        if not isinstance(found, OSError):
            self._context, self._read_at, self._complaint = found, now, ""
            return found
        if self._context is None:
            raise found
        if str(found) != self._complaint:
            _log.warning("%s; the files read before stay in use", found)
        self._complaint = str(found)
        return self._context
