"""The TLS sessions of former connections: the next one to the same address needs no full handshake (RFC 8446 §2.2)."""

from __future__ import annotations

import ssl

from trxds.core.determinism import wall_clock

from .certificates import ClientContext

MAX_SESSIONS = 1000


class TlsSessions:
    """Sessions by address, at most `MAX_SESSIONS`; each is used once, as RFC 8446 §C.4 asks for.

    In a resumed handshake OpenSSL verifies no chain. So only sessions of the same context are resumed, which ends with
    the next reading of the files, and none whose peer's certificate has expired meanwhile, or where revocation lists or
    SPIFFE bundles have to be asked each time.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, tuple[ssl.SSLContext, ssl.SSLSession, float]] = {}

    def keep(self, address: str, context: ssl.SSLContext, session: ssl.SSLSession, expires: float) -> None:
        """Keep the session of a connection that takes no more calls, in place of an earlier one.

        `expires` is the end of the peer's certificate, in seconds since 1970.
        """
        if not isinstance(context, ClientContext) or not context.may_resume:
            return
        self._sessions.pop(address, None)
        self._sessions[address] = context, session, expires
        if len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    def take(self, address: str, context: ssl.SSLContext) -> ssl.SSLSession | None:
        """Return the session to resume in this context, if there is one; it is kept no longer."""
        made_in, session, expires = self._sessions.pop(address, (None, None, 0.0))
        return session if made_in is context and wall_clock()() < expires else None
