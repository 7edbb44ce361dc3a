"""A peer of a SPIFFE bundle map proves an ID, and each trust domain's authorities vouch for their own IDs only (A87).

OpenSSL verifies against the authorities of all domains together. So when it has verified a chain, this file checks that
the chain ends in the bundle of the leaf's own domain; otherwise one domain's authority could sign the IDs of another.
The check is part of the handshake, so no byte of an RPC can be sent before it.
"""

from __future__ import annotations

import re
import ssl
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from .der import certificate_facts
from .spiffe_bundles import BundleMap

_MAX_LENGTH = 2048

# SPIFFE-ID §2: the scheme may be in capitals, the rest has these characters and no escapes.
_ID = re.compile(r"(?i:spiffe)://(?P<domain>[a-z0-9._-]{1,255})(?P<path>(?:/[A-Za-z0-9._-]+)*)", re.ASCII)


class SpiffeId(Struct, frozen=True):
    """A SPIFFE ID; the path is empty, or begins with a slash."""

    trust_domain: str
    path: str

    def __str__(self) -> str:
        return f"spiffe://{self.trust_domain}{self.path}"


class SpiffeError(ssl.SSLCertVerificationError):
    """A peer that SPIFFE refuses; `str` is the reason. Trio ends a handshake for errors of ssl only."""

    def __init__(self, why: str) -> None:
        super().__init__(1, why)


def is_spiffe_id(name: str) -> bool:
    """Return whether a name is meant as a SPIFFE ID, well-formed or not."""
    return name[:9].lower() == "spiffe://"


def parse_spiffe_id(text: str) -> SpiffeId:
    """Return the ID; `ValueError` if the text is not well-formed."""
    match = _ID.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None or not {".", ".."}.isdisjoint(match["path"].split("/")):
        raise ValueError(f"{text[:100]!r} is no SPIFFE ID; it has the form spiffe://trust-domain/path")
    return SpiffeId(match["domain"], match["path"])


def why_unsupported() -> str | None:
    """Return why this Python cannot check SPIFFE peers; None if it can."""
    # Older releases have it in a private object only. To leave the check out would accept any domain's authority.
    if hasattr(ssl.SSLObject, "get_verified_chain"):
        return None
    return f"needs Python 3.13, whose ssl shows the verified chain; this is {sys.version_info[0]}.{sys.version_info[1]}"


def spiffe_id_of(certificate: Mapping[str, Any], der: bytes) -> SpiffeId:
    """Return the ID of a leaf certificate, given as by `SSLSocket.getpeercert` and in DER; `ValueError` if none."""
    names = _uri_names(certificate)
    if len(names) != 1:
        raise ValueError(f"the peer's certificate has {len(names)} URI names; a SPIFFE certificate has one")
    try:
        found = parse_spiffe_id(names[0])
    except ValueError as error:
        raise ValueError(f"the peer's URI name {error}") from None
    facts = certificate_facts(der)
    # X509-SVID §5.2: an authority must not pass for a workload.
    if facts.is_ca or facts.may_sign:
        raise ValueError(f"the peer shows a certificate of {found} that may sign others; a workload's must not")
    return found


def check_peer(bundles: BundleMap, certificate: Mapping[str, Any], chain: Sequence[bytes]) -> SpiffeId:
    """Return the peer's ID, given the chain that was verified, in DER; `ValueError` says why the peer is refused."""
    if not chain:
        raise ValueError("the verified chain of the peer is not known")
    found = spiffe_id_of(certificate, chain[0])
    bundle = bundles.domains.get(found.trust_domain)
    if bundle is None:
        raise ValueError(f"the peer is {found}, and the trust domain {found.trust_domain} is not in the {bundles}")
    # With revocation lists the chain goes on, perhaps to an authority of another domain.
    if bundle.isdisjoint(chain[1:]):
        raise ValueError(
            f"the peer says that it is {found}, but no authority of {found.trust_domain} in the {bundles} has signed it"
        )
    return found


def wrong_id(wanted: SpiffeId, certificate: Mapping[str, Any]) -> str | None:
    """Return the error of a verified SPIFFE certificate unless it is for the wanted ID."""
    names = _uri_names(certificate)
    if names and parse_spiffe_id(names[0]) == wanted:
        return None
    return f"certificate check failure: the peer is {', '.join(names)}, and server_name is {wanted}"


def _uri_names(certificate: Mapping[str, Any]) -> list[str]:
    return [str(name) for kind, name in certificate.get("subjectAltName", ()) if kind == "URI"]


class SpiffeObject(ssl.SSLObject):
    """A TLS connection whose handshake ends with `check_peer`."""

    bundles: BundleMap

    def do_handshake(self) -> None:
        super().do_handshake()
        try:
            chain = self.get_verified_chain()  # type: ignore[attr-defined,unused-ignore]
            check_peer(self.bundles, self.getpeercert() or {}, chain)
        except ValueError as error:  # also a name that is no UTF-8
            raise SpiffeError(f"SPIFFE: {error}") from None


def spiffe_object(of: BundleMap) -> type[SpiffeObject]:
    """Return the `SSLContext.sslobject_class` that checks peers by this map."""

    class CheckedBySpiffe(SpiffeObject):
        bundles = of

    return CheckedBySpiffe
