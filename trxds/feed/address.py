"""Where a feed is served, and to whom: a unix socket or a loopback port, or anywhere for who shows a token. Pure."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
from dataclasses import dataclass

_LONGEST_PATH = 107  # bytes, on Linux
_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,}")
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/@\s]+))(?::\d{1,5})?")


@dataclass(frozen=True, slots=True)
class Admin:
    """What `open_channel(admin=...)` takes for more than an address.

    `address` is `unix:/run/shop.sock`, or `127.0.0.1:9901`, port 0 for a free one. With a `token`, 16 characters or
    more, it may be of an interface that others reach; whoever asks has to show it. `metadata` lets those who ask
    see the values of calls' metadata, and not their keys alone. Raises `ValueError` for what is none of that.
    """

    address: str
    token: str = ""
    metadata: bool = False

    def __post_init__(self) -> None:
        if self.token and not _TOKEN.fullmatch(self.token):
            raise ValueError(
                "admin's token is 16 or more of A-Z, a-z, 0-9 and . _ ~ -, such as secrets.token_urlsafe() makes"
            )
        if self.path:
            size = len(os.fsencode(self.path))
            if size > _LONGEST_PATH:
                raise ValueError(f"admin's path has {size} bytes, and a socket's may have {_LONGEST_PATH}: {self.path}")
            return
        _, colon, port = self.address.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535 or self.address.startswith("unix"):
            raise ValueError(f"admin is {self.address!r}; it is unix:/path or host:port, as in 127.0.0.1:9901")
        if not _is_address(self.host):
            raise ValueError(f"admin is {self.address!r}; its host is an IP address, as in 127.0.0.1:9901")
        if not self.token and not ipaddress.ip_address(self.host).is_loopback:
            raise ValueError(
                f"admin={self.address!r} can be reached from other machines: take 127.0.0.1 or unix:/path, "
                "or trxds.feed.Admin(address, token=...)"
            )

    @property
    def path(self) -> str:
        """Of the unix socket; empty if it is none."""
        return self.address.removeprefix("unix:") if self.address.startswith("unix:") else ""

    @property
    def host(self) -> str:
        """An IP address."""
        name = self.address.rpartition(":")[0].strip("[]")
        return "127.0.0.1" if name == "localhost" else name

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def __repr__(self) -> str:
        return f"<Admin {self.address}{', with a token' if self.token else ''}>"

    # -- who may ask

    def knows(self, host: str) -> bool:
        """Whether a request may name that host.

        A site whose own name resolves to our address would reach us from an operator's browser (DNS rebinding), but
        it says its name. Who has the token may call us what they like.
        """
        found = _HOST.fullmatch(host)
        if self.path or self.token:
            return True
        name = (found[1] or found[2]).lower() if found else ""
        return name == "localhost" or _is_address(name)

    def admits(self, authorization: str) -> bool:
        """Whether that header shows the token, if there has to be one."""
        shown = authorization.removeprefix("Bearer ").encode()
        return not self.token or hmac.compare_digest(shown, self.token.encode())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
