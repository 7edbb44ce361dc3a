"""TLS contexts from certificate files that are read again while they are in use, as files are rotated (A29, A65)."""

from __future__ import annotations

import logging
import math
import re
import ssl
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from .crls import Crls, load_crls, read_crls
from .file_content import FileContent, FileSource, as_path, origin, read_source
from .spiffe import spiffe_object, why_unsupported
from .spiffe_bundles import BundleMap, parse_bundle_map

T = TypeVar("T")

_log = logging.getLogger("trxds.transport")

REFRESH_INTERVAL = 600.0  # seconds
MIN_VERSION = ssl.TLSVersion.TLSv1_2  # HTTP/2 forbids older ones (RFC 9113 §9.2)


_WRAPPING = re.compile(r"^\[[^]]*\] | \(_ssl\.c:\d+\)$")  # OpenSSL's library, and Python's line of source


class CertificateFiles(Struct, frozen=True):
    """PEM files of a TLS peer; each is a path, or the content itself.

    Without `roots` the system's are trusted; without `certificate` and `private_key` no certificate is shown. A
    `spiffe_bundle_map` takes the place of the roots (A87). With `crls`, a directory or a file, each certificate of the
    peer's chain needs a valid revocation list that does not have it (A69).

    `refresh_interval` is the time in seconds after which the files are read again.
    """

    roots: FileSource = ""
    certificate: FileSource = ""
    private_key: FileSource = ""
    refresh_interval: float = REFRESH_INTERVAL
    spiffe_bundle_map: FileSource = ""
    crls: FileSource = ""
    min_version: ssl.TLSVersion = MIN_VERSION


class ClientContext(ssl.SSLContext):
    """A context for connections to peers that must show a certificate, and what else it verifies them by.

    `problems` are those of the last reading that left something older in use. With `checks_authority` a rewritten
    authority has to be proved, though the handshake is for a name of another kind (A81).
    """

    bundles: BundleMap | None = None
    crls: Crls | None = None
    problems: tuple[str, ...] = ()
    roots: FileContent | None = None
    """The roots that were loaded; None for the system's, and for those of a bundle map."""
    identity: tuple[FileContent, FileContent] | None = None
    """Our certificate and its key that were loaded; None if we show none."""
    is_partial = False
    """Whether roots or certificate are those of an earlier reading, because the present ones cannot be used."""
    checks_authority = False

    @property
    def may_resume(self) -> bool:
        """Whether a connection may be verified by what an earlier one has proved."""
        return self.bundles is None and self.crls is None

    def __str__(self) -> str:
        used = ", ".join(["TLS", *(str(each) for each in (self.bundles, self.crls) if each is not None)])
        return "; ".join((used, *self.problems))


def client_context(
    files: CertificateFiles, *, check_hostname: bool = True, before: ClientContext | None = None
) -> ClientContext:
    """Return a context for connections to peers that must show a certificate; `OSError` names the unusable file.

    What cannot be used stays as in `before`, the context in use: roots, our certificate, bundle map and revocation
    lists, each by itself. If that leaves nothing new of roots and certificate, `before` gets the bundle map and the
    lists that were read now, and the error is raised.
    """
    before = before or ClientContext(ssl.PROTOCOL_TLS_CLIENT)  # one that has nothing to keep
    context = ClientContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = check_hostname
    # RFC 9525 §2: only subjectAltName has names. OpenSSL reads the common name where there is no DNS name, also beside
    # a SPIFFE ID, and authorities need not check a common name.
    context.hostname_checks_common_name = False
    if not files.crls:
        # As in the other clients, an authority of the roots or of a bundle may be signed by another one. With lists the
        # chain has to go on to the end: OpenSSL would look for one of the last certificate's issuer, whose key it does
        # not have.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.minimum_version = files.min_version
    # gRPC needs HTTP/2, which a TLS peer selects by ALPN (RFC 9113 §3.2).
    context.set_alpn_protocols(["h2"])
    # RFC 9113 §9.2.1 forbids it, and a peer could change its certificate after it was checked.
    context.options |= ssl.OP_NO_RENEGOTIATION
    problems: list[str] = []
    bundles = _bundles(files.spiffe_bundle_map, before, problems) if files.spiffe_bundle_map else None
    crls = _crls(files.crls, before, problems) if files.crls else None
    _verify_by(context, bundles, crls)
    failures: list[OSError] = []
    if bundles is None:
        _load_roots(context, files.roots, before, failures)
    if files.certificate:
        _load_identity(context, files.certificate, files.private_key, before, failures)
    if failures:
        if (context.roots, context.identity) == (before.roots, before.identity):
            # A peer may have been revoked meanwhile; a spoilt certificate of ours must not hide it.
            _verify_by(before, bundles, crls)
            raise failures[0]
        context.is_partial = True
    context.problems = (*problems, *map(str, failures))
    return context


def _verify_by(context: ClientContext, bundles: BundleMap | None, crls: Crls | None) -> None:
    context.bundles, context.crls = bundles, crls
    if bundles is not None:
        if bundles.roots:
            context.load_verify_locations(cadata=b"".join(sorted(bundles.roots)))
        context.sslobject_class = spiffe_object(bundles)
    if crls is not None:
        load_crls(context, crls)


def _bundles(source: FileSource, before: ClientContext, problems: list[str]) -> BundleMap:
    # Here, because the same bootstrap is read by any Python, and by programs whose clusters do not name the provider.
    if (unsupported := why_unsupported()) is not None:
        raise OSError(f"cannot use the SPIFFE bundle map {origin(source)}: it {unsupported}")
    try:
        return parse_bundle_map(read_source(source), origin(source))
    except (OSError, ValueError) as error:
        problem = f"cannot use the SPIFFE bundle map {origin(source)}: {error}"
    # A87: the map that was read before stays, and without one new connections fail.
    if before.bundles is None:
        raise OSError(problem)
    problems.append(problem)
    return before.bundles


def _crls(source: FileSource, before: ClientContext, problems: list[str]) -> Crls:
    crls = read_crls(source, before.crls)
    if not crls.lists:
        # OpenSSL would refuse each peer, but not say where lists were looked for.
        raise OSError(f"{crls.problem or f'there are no CRLs {crls.origin}'}; without one no peer is accepted")
    if crls.problem:
        problems.append(crls.problem)
    return crls


def _load_roots(context: ClientContext, roots: FileSource, before: ClientContext, failures: list[OSError]) -> None:
    if not roots:
        context.load_default_certs()
        return
    what = f"the roots {origin(roots)}"

    def use(content: FileContent) -> None:
        remedy = "a certificate in it is no valid PEM; write it anew"
        with as_path(content) as path:
            _load(what, lambda: context.load_verify_locations(path), remedy)

    context.roots = _use_or_keep(lambda: _content(roots, what), use, before.roots, failures)


def _load_identity(
    context: ClientContext,
    certificate: FileSource,
    private_key: FileSource,
    before: ClientContext,
    failures: list[OSError],
) -> None:
    what = f"the certificate {origin(certificate)} with the key {origin(private_key)}"

    def read() -> tuple[FileContent, FileContent]:
        return _content(certificate, what), _content(private_key, what)

    def use(identity: tuple[FileContent, FileContent]) -> None:
        remedy = "one of them is no valid PEM, or the key is encrypted; write both in PEM, the key without a password"
        with as_path(identity[0]) as certificate_path, as_path(identity[1]) as key_path:
            # With an empty password OpenSSL fails for an encrypted key; otherwise it would ask at the terminal.
            _load(what, lambda: context.load_cert_chain(certificate_path, key_path, password=""), remedy)

    context.identity = _use_or_keep(read, use, before.identity, failures)


def _use_or_keep(read: Callable[[], T], use: Callable[[T], None], kept: T | None, failures: list[OSError]) -> T:
    """Use and return the present content of files; if it cannot be used, the content `kept` of an earlier reading."""
    try:
        content = read()
        use(content)
    except OSError as error:
        if kept is None:
            raise
        failures.append(error)
        content = kept
        use(content)
    return content


def _content(source: FileSource, what: str) -> FileContent:
    """Return a file's content, read once: it is loaded, and loaded again if a later reading is of no use."""
    try:
        return FileContent(read_source(source))
    except OSError as error:
        # A bootstrap may have any text as a path, such as one with a NUL.
        raise OSError(f"cannot read {what if what.isprintable() else repr(what)}: {error}") from None


def _load(what: str, load: Callable[[], object], remedy: str) -> None:
    """Load a file; `remedy` is for one that OpenSSL cannot parse, of which it says no more than that."""
    try:
        load()
    except ssl.SSLError as error:
        reason = ssl_reason(error)
        raise OSError(f"cannot use {what}: {remedy if reason in ('pem lib', 'asn1 lib') else reason}") from None
    except OSError as error:
        raise OSError(f"cannot read {what}: {error.strerror or error}") from None


def ssl_reason(error: Exception) -> str:
    """Return the reason of an error of ssl or OpenSSL in plain words."""
    # Python knows no name of some reasons, such as the alert of a peer without our ALPN protocol.
    return _WRAPPING.sub("", getattr(error, "reason", None) or str(error)).lower().replace("_", " ")


class FreshContext:
    """The context made from files when they were last read.

    `current` returns it while it is fresh; otherwise the caller runs `read` in a thread and gives the result to `take`.
    New files that cannot be used (they are just being written, say) do not hold up the others: roots, our certificate,
    bundle map and revocation lists each stay what they were. Roots and certificate are read again for the next
    connection, the others after the next interval.
    """

    def __init__(self, files: CertificateFiles, *, check_hostname: bool = True) -> None:
        self._files = files
        self._check_hostname = check_hostname
        self._context: ClientContext | None = None
        self._read_at = -math.inf
        self._last_error = ""

    def current(self, now: float) -> ClientContext | None:
        """Return the context, or None if it is time to read the files."""
        return self._context if now < self._read_at + self._files.refresh_interval else None

    def read(self) -> ClientContext | OSError:
        """Return the context made of the files, or why it cannot be made. It may block on the disk: run it in a thread.

        Nothing changes here but the context in use: it gets new revocation lists even if a certificate is unusable.
        """
        try:
            return client_context(self._files, check_hostname=self._check_hostname, before=self._context)
        except OSError as error:
            return error

    def take(self, result: ClientContext | OSError, now: float) -> ClientContext:
        """Return the context to use, given the result of `read`; `OSError` if there never was a good one."""
        if not isinstance(result, OSError):
            self._context, self._read_at = result, -math.inf if result.is_partial else now
            self._warn("; ".join(result.problems))
            return result
        if self._context is None:
            raise result
        self._warn(str(result))
        return self._context

    def _warn(self, error: str) -> None:
        # One warning for each new error, not for each connection that finds the same files.
        if error and error != self._last_error:
            _log.warning("%s; the files read before stay in use", error)
        self._last_error = error
