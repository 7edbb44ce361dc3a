"""Transport credentials say what a connection needs before it may carry RPCs: nothing, or TLS."""

from __future__ import annotations

import ssl
from typing import TypeAlias

from msgspec import Struct, field

from .certificates import CertificateFiles


class Insecure(Struct, frozen=True):
    """Plain text, without proof of the peer's name."""


INSECURE = Insecure()


class Tls(Struct, frozen=True):
    """TLS with certificates from files that are read again, or with a context that stays as it is.

    The peer must prove `server_name`; empty means the name that the call is for.
    """

    source: CertificateFiles | ssl.SSLContext = field(default_factory=CertificateFiles)
    server_name: str = ""


Credentials: TypeAlias = Insecure | Tls
