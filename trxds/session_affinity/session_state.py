"""Session state travels in a cookie (A55) or in a header of its own (Envoy).

Envoy's header holds base64 of the host's address and no cluster, so a session that it
carries does not stay in one of several weighted clusters.
"""

from __future__ import annotations

from typing import Protocol, assert_never

from trxds.core.metadata import Metadata
from trxds.resources.stateful_session import CookieConfig, HeaderConfig, SessionState

from . import cookie


class SessionStateCarrier(Protocol):
    """A place in requests and responses for the session's state, as Envoy's `SessionState` extensions have it."""

    session_headers: tuple[str, ...]  # the headers that a session has to send back, other than cookies

    def read(self, metadata: Metadata) -> str | None:
        """Return the session's encoded text in the caller's metadata."""

    def encode(self, addresses: str, cluster: str) -> tuple[str, str]:
        """Return the addresses and the cluster that the carrier would keep of these."""

    def write(self, metadata: Metadata, addresses: str, cluster: str) -> Metadata:
        """Return the response's metadata with that session."""


class CookieSessionState:
    """A session in a cookie (A55)."""

    session_headers: tuple[str, ...] = ()

    def __init__(self, config: CookieConfig) -> None:
        self._config = config

    def read(self, metadata: Metadata) -> str | None:
        # One by one: joined by commas, as the C++ client does it, a cookie after the first header is not found.
        for key, header in metadata:  # there may be several Cookie headers (A55)
            if key == "cookie" and isinstance(header, str):
                found = cookie.find_cookie(header, self._config.name)
                if found is not None:
                    return found
        return None

    def encode(self, addresses: str, cluster: str) -> tuple[str, str]:
        return cookie.limit_addresses(addresses), cluster if self._config.names_cluster else ""

    def write(self, metadata: Metadata, addresses: str, cluster: str) -> Metadata:
        # A Set-Cookie header is added: those of the server stay.
        header = cookie.set_cookie_header(self._config, cookie.encode(addresses, cluster))
        return Metadata((*metadata, ("set-cookie", header)))

    def __repr__(self) -> str:
        return f"cookie {self._config.name!r}"


class HeaderSessionState:
    """A session in a header of its own, as Envoy's `HeaderBasedSessionState`."""

    def __init__(self, config: HeaderConfig) -> None:
        self._name = config.name
        self.session_headers: tuple[str, ...] = (config.name,)

    def read(self, metadata: Metadata) -> str | None:
        value = metadata.first(self._name)
        return value if isinstance(value, str) else None

    def encode(self, addresses: str, cluster: str) -> tuple[str, str]:
        return addresses.partition(",")[0], ""

    def write(self, metadata: Metadata, addresses: str, cluster: str) -> Metadata:
        # The server's value is replaced: an application looks for one value.
        rest = (pair for pair in metadata if pair[0] != self._name)
        return Metadata((*rest, (self._name, cookie.encode_base64(addresses))))

    def __repr__(self) -> str:
        return f"header {self._name!r}"


def make_carrier(state: SessionState) -> SessionStateCarrier:
    match state:
        case CookieConfig():
            return CookieSessionState(state)
        case HeaderConfig():
            return HeaderSessionState(state)
        case _ as never:
            assert_never(never)
