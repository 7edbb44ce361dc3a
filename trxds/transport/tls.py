"""TLS over any network: a peer that does not prove its name, or does not speak HTTP/2, gets no connection.

A reader of the error has a certificate to repair, so it names the peer, the name that the peer had to prove, and the
cause.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from functools import partial
from typing import Any, TypeAlias

import trio

from trxds.core.authority import host_of

from .certificates import CertificateFiles, ClientContext, FreshContext, ssl_reason
from .connect import Network
from .run_in_thread import run_in_thread
from .spiffe import SpiffeError, is_spiffe_id, parse_spiffe_id, wrong_id
from .tls_sessions import TlsSessions
from .transport import BelowTls
from .transport_credentials import Credentials, Insecure, Tls

_MAX_SHOWN = 100  # characters of a name
_NO_HTTP2 = "the peer did not agree on HTTP/2; its ALPN protocols must include h2"

NextContext: TypeAlias = Callable[[], Awaitable[ssl.SSLContext]]
Approve: TypeAlias = Callable[[Mapping[str, Any]], str | None]
"""A function of the peer's certificate (as from `SSLSocket.getpeercert`) that returns what is wrong with it."""


class TlsNetwork:
    """A network whose connections are TLS.

    `context` returns the context for the next connection, and may read files for it; `OSError` says why there is none.
    `server_name` is sent as SNI, and the peer must prove it if the context checks host names.
    """

    def __init__(
        self,
        network: Network,
        context: NextContext,
        server_name: str | None,
        approve: Approve | None = None,
    ) -> None:
        self._network = network
        self._context = context
        # RFC 6066 §3: the SNI has no trailing dot, which says to DNS only that the name is complete.
        self._server_name = server_name and server_name.removesuffix(".")
        self._approve = approve
        self._last_context: ssl.SSLContext | None = None
        self._sessions = TlsSessions()

    @property
    def security(self) -> str:
        """What the last connection was verified by, for operators."""
        return str(self._last_context) if isinstance(self._last_context, ClientContext) else "TLS"

    def with_transport(self, below: Callable[[Network], Network]) -> TlsNetwork:
        """Return this network with another transport: `below` of the one that it has now."""
        network = copy(self)
        network._network = below(self._network)
        return network

    async def connect(self, address: str) -> trio.abc.Stream:
        # Before the connection, which would be useless without it.
        context = self._last_context = await self._context()
        transport = await self._network.connect(address)
        try:
            below = BelowTls(transport)
            stream = self._stream(below, context, address)
            if (session := self._sessions.take(address, context)) is not None:
                stream.session = session
            problem = await self._handshake(stream)
            if problem is not None:
                name = f" as {self._server_name!r}" if self._server_name else ""
                raise ConnectionError(f"TLS with {address}{name}: {problem}")
            below.has_reader = True
        except BaseException:
            await trio.aclose_forcefully(transport)
            raise
        return stream

    def _stream(self, below: BelowTls, context: ssl.SSLContext, address: str) -> trio.SSLStream[trio.abc.Stream]:
        try:
            return tls_stream(below, context, self._server_name)
        except ValueError:
            # The name may be of a resource, which nobody has checked as a host name.
            text = f"TLS with {address}: no peer can have the name {str(self._server_name)[:_MAX_SHOWN]!r}"
            remedy = "correct the target or server_name, or the sni of the cluster or the hostname of the endpoint"
            raise ConnectionError(f"{text}; {remedy}") from None

    def keep_session(self, address: str, stream: trio.abc.Stream) -> None:
        """Keep the TLS session of a connection, from which something was read, for the next one to that address."""
        if not isinstance(stream, trio.SSLStream) or stream.session is None:
            return
        try:
            expires = ssl.cert_time_to_seconds((stream.getpeercert() or {})["notAfter"])
        except (KeyError, ValueError):  # nothing was verified, or a name in it is no UTF-8
            return
        self._sessions.keep(address, stream.context, stream.session, expires)

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        return await self._network.resolve(host, port)

    async def _handshake(self, stream: trio.SSLStream[trio.abc.Stream]) -> str | None:
        try:
            await stream.do_handshake()
        except trio.BrokenResourceError as error:
            return tls_cause(error) + verify_remedy(error.__cause__, stream.context)
        # RFC 9113 §3.2: HTTP/2 over TLS must be agreed on by ALPN.
        if stream.selected_alpn_protocol() != "h2":
            return _NO_HTTP2
        if self._approve is None:
            return None
        try:
            certificate = stream.getpeercert() or {}
        except UnicodeDecodeError:  # an authority may sign whatever it is given
            return "a name in the peer's certificate is no UTF-8; the peer needs a new one"
        return self._approve(certificate)


def tls_stream(
    transport: trio.abc.Stream, context: ssl.SSLContext, server_name: str | None
) -> trio.SSLStream[trio.abc.Stream]:
    """Return a client's stream, before its handshake. `ValueError` says that no peer can have the name."""
    try:
        # `https_compatible`: HTTPS servers close without close_notify, and HTTP itself detects a cut-off stream.
        return trio.SSLStream(transport, context, server_hostname=server_name, https_compatible=True)
    except (TypeError, ssl.SSLError) as error:  # TypeError for a NUL
        raise ValueError(str(error)) from error


def is_peer_name(name: str) -> bool:
    """Return whether a peer can have that name: `tls_stream` refuses any other."""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=name.removesuffix("."))
    except (ValueError, TypeError, ssl.SSLError):  # TypeError for a NUL
        return False
    return True


def credentials_network(network: Network, credentials: Credentials, name: str) -> Network:
    """Return the network over which these credentials reach a peer that has this name."""
    match credentials:
        case Insecure():
            return network
        case Tls(source, server_name) if is_spiffe_id(server_name):
            context = partial(_checking_authority, context_source(source, check_hostname=False))
            return TlsNetwork(network, context, None, partial(wrong_id, parse_spiffe_id(server_name)))
        case Tls(source, server_name):
            return TlsNetwork(network, context_source(source), server_name or name)


def context_source(source: CertificateFiles | ssl.SSLContext, *, check_hostname: bool = True) -> NextContext:
    """Return a source of contexts for connections; it reads files once for all connections that wait for them."""
    if isinstance(source, ssl.SSLContext):
        return partial(_same_context, source)
    return partial(_fresh_context, FreshContext(source, check_hostname=check_hostname), trio.Lock())


async def _same_context(context: ssl.SSLContext) -> ssl.SSLContext:
    return context


async def _checking_authority(next_context: NextContext) -> ssl.SSLContext:
    context = await next_context()
    if isinstance(context, ClientContext):
        context.checks_authority = True
    return context


async def _fresh_context(context: FreshContext, one_reads: trio.Lock) -> ssl.SSLContext:
    # Many connections may start at once, for example after a rotation: one of them reads for all.
    async with one_reads:
        return context.current(trio.current_time()) or context.take(
            await run_in_thread(context.read), trio.current_time()
        )


def server_name_of(address: str) -> str:
    """Return the name that a peer has to prove by default; a Unix socket is on this host."""
    return "localhost" if address.startswith("unix:") else host_of(address)


def certificate_doubt(context: ssl.SSLContext) -> str:
    """Return the end of a question, "does it ...?", about a server that closed the connection without a word."""
    shown = isinstance(context, ClientContext) and context.identity is not None
    return "accept our certificate" if shown else "want a certificate from us"


def tls_cause(error: BaseException) -> str:
    """Return why a stream broke, without OpenSSL's numbers and source lines."""
    cause = error.__cause__ or error
    if isinstance(cause, SpiffeError):
        return str(cause)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {cause.verify_message.rstrip('.')}"
    if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):  # it depends on Python's release which one comes
        return "the peer closed the connection during the handshake; does it speak TLS, or want a certificate from us?"
    if isinstance(cause, ssl.SSLError) and (text := ssl_reason(cause)):
        if text.endswith("no application protocol"):
            return _NO_HTTP2
        return f"{text}; does the peer speak TLS?" if text == "wrong version number" else text
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


# X509_V_ERR_... of OpenSSL's x509_vfy.h
_UNTRUSTED = frozenset({18, 19, 20, 21})  # no chain leads to an authority
_UNFINISHED = 2  # the chain ends at an authority that another one signed
_NO_CRL, _REVOKED = 3, 23
_BAD_CRL = frozenset({8, 11, 12, 36, 44})  # its signature, its times, an extension, or the certificates it is for
_NOT_YET_VALID, _EXPIRED = 9, 10
_HOSTNAME_MISMATCH = 62


def verify_remedy(error: BaseException | None, context: object) -> str:
    """Return what to do about a certificate that was refused, beginning with "; ", or an empty text."""
    if not isinstance(context, ClientContext) or not isinstance(error, ssl.SSLCertVerificationError):
        return ""
    code = getattr(error, "verify_code", None)
    if code == _HOSTNAME_MISMATCH:
        return "; its subjectAltName needs that name, and its common name does not count"
    if context.crls is not None:
        if code == _NO_CRL:
            return f"; an issuer of the peer's chain has none in the {context.crls}: put it there"
        if code == _UNFINISHED:
            where = "roots" if context.bundles is None else context.bundles
            return f"; with revocation lists, the {where} need each authority up to one that signed itself"
        if code in _BAD_CRL:
            return f"; replace it in the {context.crls}"
        if code == _REVOKED:
            return f" by the {context.crls}; the peer needs a new one"
    if code == _EXPIRED:
        return "; the peer needs a new one"
    if code == _NOT_YET_VALID:
        return "; are the clocks of both machines right?"
    if code not in _UNTRUSTED:
        return ""
    if context.bundles is not None:
        return f"; no authority in the {context.bundles} has signed it"
    trusted = "this system trusts" if context.roots is None else "the roots have"
    return f"; no authority that {trusted} has signed it"
