"""Who may look: decided by a request's headers, before the program tells anything. Pure.

A page on loopback is within reach of every site that the operator's browser has open. Two rules keep those out. `Host`
must be an address or a name that we know, for a site that has its own name resolve to 127.0.0.1 (DNS rebinding) still
sends its own name. And whoever opens the WebSocket must say by `Origin` that he is our own page, for the browser lets
any site open one. The token is for the people who can reach the port without a browser.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

from trxds.feed.http import Asked, Refusal

PROTOCOL = "trxds.live"
"""The WebSocket's subprotocol; the token comes as a second one, for a browser's script can set no header."""

_TOKEN = "token."
_KEY = re.compile(r"[A-Za-z0-9+/]{22}==")
_SPEAKABLE = re.compile(r"[A-Za-z0-9._~-]{16,}")


@dataclass(frozen=True, slots=True)
class Door:
    """`names` are those the page may be asked for by, beside any address; without a `token` everybody may look."""

    names: frozenset[str]
    token: str | None = None

    def __repr__(self) -> str:
        return f"<Door {', '.join(sorted(self.names))}, {'with a token' if self.token else 'without a token'}>"

    def refuses_page(self, asked: Asked) -> Refusal | None:
        """The page is the same for everybody and tells nothing, so it needs no token."""
        host = _of(asked, "host")
        if not self._knows(host):
            return Refusal(421, f"no page for the host {host!r}; serve(names=[...]) lets names in")
        if asked.method not in ("GET", "HEAD"):
            return Refusal(405, f"{asked.method} is not for this page, which is read-only; GET is")
        return None

    def refuses_feed(self, asked: Asked) -> Refusal | None:
        if (refusal := self.refuses_page(asked)) is not None:
            return refusal
        host, origin = _of(asked, "host").lower(), _of(asked, "origin").lower()
        if origin not in (f"http://{host}", f"https://{host}"):
            return Refusal(403, f"the feed is for the page at {host}, not for {origin or 'who does not say Origin'}")
        if not _is_handshake(asked) or PROTOCOL not in _offered(asked):
            return Refusal(400, f"the feed is a WebSocket (version 13) with the subprotocol {PROTOCOL}")
        if self.token is not None and not self._is_shown(asked):
            return Refusal(401, "the token is missing or wrong; it is the end of the address that the program gave")
        return None

    def _knows(self, host: str) -> bool:
        name = host_name(host)
        return name in self.names or is_address(name)

    def _is_shown(self, asked: Asked) -> bool:
        assert self.token is not None
        shown = [offer.removeprefix(_TOKEN) for offer in _offered(asked) if offer.startswith(_TOKEN)]
        return any([hmac.compare_digest(one, self.token) for one in shown])


def _is_handshake(asked: Asked) -> bool:
    """Only what the WebSocket's own parser takes without a complaint: whom it refuses, it leaves waiting."""
    return (
        asked.method == "GET"
        and _of(asked, "upgrade").lower() == "websocket"
        and "upgrade" in _listed(_of(asked, "connection").lower())
        and _of(asked, "sec-websocket-version") == "13"
        and _KEY.fullmatch(_of(asked, "sec-websocket-key")) is not None
        and all(value.isascii() for value in asked.headers.values())
    )


def _offered(asked: Asked) -> list[str]:
    return _listed(_of(asked, "sec-websocket-protocol"))


def _of(asked: Asked, header: str) -> str:
    return asked.headers.get(header, "")


def _listed(value: str) -> list[str]:
    return [each.strip() for each in value.split(",")]


def host_name(host: str) -> str:
    """Of `name:port` or `[address]:port`, without the port; empty for what is neither."""
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/@\s]+))(?::\d{1,5})?", host)
    return (found[1] or found[2]).lower() if found else ""


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def checked_token(token: str | None, host: str, addresses: Sequence[str]) -> str | None:
    """The token, if whoever can reach these addresses has to show it; `ValueError` if there must be one and is none."""
    if token is not None and not _SPEAKABLE.fullmatch(token):
        raise ValueError("a token is 16 or more of A-Z, a-z, 0-9 and . _ ~ -, such as secrets.token_urlsafe() makes")
    if token is None and not all(ipaddress.ip_address(each).is_loopback for each in addresses):
        raise ValueError(f"host={host!r} can be reached from other machines: give token=..., or stay on 127.0.0.1")
    return token
