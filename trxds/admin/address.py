"""The address of the admin surface and its token: `open_channel(admin=...)` and `trxds.admin.serve`. Pure."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from dataclasses import dataclass, field

from trxds.core.authority import is_ip

MAX_PATH = 107  # bytes of a unix socket's path, on Linux
_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,}")


@dataclass(frozen=True, slots=True)
class Admin:
    """The address of an admin surface, and its token.

    `address` is `unix:/run/shop.sock` or `127.0.0.1:9901`; port 0 takes a free one. A unix socket is private to the
    user, and loopback to the machine, so neither needs more. An address that other machines reach needs a `token`, 16
    characters or more, or `tls`: a server's `ssl.SSLContext` that requires client certificates, whose ALPN protocols
    become "http/1.1" and "h2". Both may be given with any address. `names` are further host names that browsers may
    use (a proxy's, say), beside `localhost` and addresses. `metadata` lets viewers see the values of calls' metadata;
    without it they see the keys alone.

    Raises `ValueError` for a malformed address, a malformed token, and a token that is missing.
    """

    address: str
    token: str = field(default="", repr=False)
    metadata: bool = False
    names: frozenset[str] = frozenset()
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        if self.token and not _TOKEN.fullmatch(self.token):
            raise ValueError(
                "admin's token is 16 or more of A-Z, a-z, 0-9 and . _ ~ -, such as secrets.token_urlsafe() makes"
            )
        if self.path:
            size = len(os.fsencode(self.path))
            if size > MAX_PATH:
                raise ValueError(f"admin's path has {size} bytes, and a socket's may have {MAX_PATH}: {self.path}")
            return
        port = self.address.rpartition(":")[2]
        if not port.isdecimal() or int(port) > 65535:
            raise ValueError(f"admin is {self.address!r}; it is unix:/path or host:port, as in 127.0.0.1:9901")
        if not is_ip(self.host):
            raise ValueError(f"admin is {self.address!r}; its host is an IP address, as in 127.0.0.1:9901")
        if not self.is_private and not self.token and not self.has_client_certificates:
            raise ValueError(
                f"admin={self.address!r} can be reached from other machines: take 127.0.0.1 or unix:/path, or "
                "trxds.admin.Admin(address, token=...), or one with tls= and client certificates"
            )

    @property
    def path(self) -> str:
        """The path of the unix socket; empty if it is none."""
        return self.address.removeprefix("unix:") if self.address.startswith("unix:") else ""

    @property
    def host(self) -> str:
        """The IP address to listen at."""
        name = self.address.rpartition(":")[0].strip("[]")
        return "127.0.0.1" if name == "localhost" else name

    @property
    def port(self) -> int:
        """The port to listen at; 0 takes a free one."""
        return int(self.address.rpartition(":")[2])

    @property
    def is_private(self) -> bool:
        """Whether no other machine can reach the address."""
        return bool(self.path) or ipaddress.ip_address(self.host).is_loopback

    @property
    def has_client_certificates(self) -> bool:
        """Whether every client has to show a certificate by TLS."""
        return self.tls is not None and self.tls.verify_mode is ssl.CERT_REQUIRED

    def __repr__(self) -> str:
        shown = ", with a token" if self.token else ""
        return f"<Admin {self.address}{shown}{', with TLS' if self.tls is not None else ''}>"
