"""The access rules of the admin surface. A request's headers decide, before the program answers anything. Pure.

A surface on loopback is within reach of every site that the operator's browser has open. Two rules keep these sites
out. `Host` must be an address or a name that we know, because a site that has its own name resolve to 127.0.0.1 (DNS
rebinding) still sends its own name. A client that opens the WebSocket must say by `Origin` that it is our own page,
because a browser lets any site open one. The token is for people who can reach the port without a browser.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence

from msgspec import Struct

from trxds.core.authority import is_ip

from .address import Admin
from .http import HttpError, HttpRequest

SUBPROTOCOL = "trxds.admin"
"""The WebSocket's subprotocol; the token comes as a second one, for a browser's script can set no header."""

_TOKEN = "token."
_KEY = re.compile(r"[A-Za-z0-9+/]{22}==")
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/@\s]+))(?::\d{1,5})?")


class AccessPolicy(Struct, frozen=True):
    """The rules of one admin surface.

    Each check returns an error for a request that is refused, None for one that may go on.
    """

    admin: Admin

    def check_page(self, request: HttpRequest) -> HttpError | None:
        """Check a request for the page, which needs no token: it is the same for everybody and has no data in it."""
        return self._check_host(request) or _check_method(request, "GET", "HEAD")

    def check_command(self, request: HttpRequest) -> HttpError | None:
        """Check a request for the state stream or an explanation, which commands ask for and pages do not."""
        if (refusal := self._check_host(request)) is not None:
            return refusal
        if "origin" in request.headers:
            return HttpError(403, "this is for commands; browser pages may not use it")
        if not self.admits(request.headers.get("authorization", "")):
            return HttpError(401, "the token is missing or wrong; send it as the header authorization: Bearer TOKEN")
        return _check_method(request, "GET")

    def check_web_socket(self, request: HttpRequest) -> HttpError | None:
        """Check the opening of a WebSocket, which the page does and nobody else may."""
        if (refusal := self._check_host(request)) is not None:
            return refusal
        host, origin = _header(request, "host").lower(), _header(request, "origin").lower()
        if origin not in (f"http://{host}", f"https://{host}"):
            return HttpError(403, f"this is for the page at {host}, not for {origin or 'a client without Origin'}")
        if not _is_handshake(request) or SUBPROTOCOL not in _offered(request):
            return HttpError(400, f"this is a WebSocket (version 13) with the subprotocol {SUBPROTOCOL}")
        if self.admin.token and not self._offers_token(request):
            return HttpError(401, "the token is missing or wrong; it is the end of the address that the program gave")
        return None

    def admits(self, authorization: str) -> bool:
        """Return whether an `authorization` header has the token, or no token is needed."""
        shown = authorization.removeprefix("Bearer ").encode()
        return not self.admin.token or hmac.compare_digest(shown, self.admin.token.encode())

    def has_token(self, request: HttpRequest) -> bool:
        """Return whether a command or a page has the token, or no token is needed."""
        return self.admits(_header(request, "authorization")) or self._offers_token(request)

    def _check_host(self, request: HttpRequest) -> HttpError | None:
        host = _header(request, "host")
        if self._knows(host):
            return None
        return HttpError(421, f"nothing for the host {host!r}; ask by the address, or let it in by Admin(names=...)")

    def _knows(self, host: str) -> bool:
        # A unix socket is out of a browser's reach, and a caller with the token may use any host name.
        if self.admin.path or self.admin.token:
            return True
        name = host_name(host)
        # RFC 9110 §4.2.3: the case of a host does not matter, and browsers send it in lower case.
        return name == "localhost" or name in map(str.lower, self.admin.names) or is_ip(name)

    def _offers_token(self, request: HttpRequest) -> bool:
        shown = [offer.removeprefix(_TOKEN) for offer in _offered(request) if offer.startswith(_TOKEN)]
        return any([hmac.compare_digest(one.encode(), self.admin.token.encode()) for one in shown])


def is_upgrade(request: HttpRequest) -> bool:
    """Return whether a request wants to become a WebSocket."""
    return _header(request, "upgrade").lower() == "websocket"


def host_name(host: str) -> str:
    """Return the name in `name:port` or `[address]:port`; empty for any other text."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""


def _check_method(request: HttpRequest, *allowed: str) -> HttpError | None:
    if request.method in allowed:
        return None
    return HttpError(405, f"{request.method} is not allowed here; use {' or '.join(allowed)}")


def _is_handshake(request: HttpRequest) -> bool:
    """Return whether the WebSocket library accepts this handshake. It leaves a client waiting that it refuses."""
    return (
        request.method == "GET"
        and is_upgrade(request)
        and "upgrade" in _listed(_header(request, "connection").lower())
        and _header(request, "sec-websocket-version") == "13"
        and _KEY.fullmatch(_header(request, "sec-websocket-key")) is not None
        and all(value.isascii() for value in request.headers.values())
    )


def _offered(request: HttpRequest) -> Sequence[str]:
    return _listed(_header(request, "sec-websocket-protocol"))


def _header(request: HttpRequest, name: str) -> str:
    return request.headers.get(name, "")


def _listed(value: str) -> list[str]:
    return [each.strip() for each in value.split(",")]
