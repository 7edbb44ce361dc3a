"""The check of the names in a peer's certificate against those that the cluster allows (A29, A101)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from .matchers import Exact, TextMatch, in_words
from .upstream_tls import UpstreamTls


def wrong_peer(tls: UpstreamTls, certificate: Mapping[str, Any]) -> str | None:
    """Return the error of a verified certificate, or None; it has the form of `ssl.SSLSocket.getpeercert`."""
    allowed: tuple[TextMatch, ...] = tls.names
    # A29 looks at subjectAltName alone, never at the common name, and an empty entry matches nothing.
    names = [(kind, str(name)) for kind, name in certificate.get("subjectAltName", ()) if name]
    if tls.sni_is_name and tls.sni:
        # Instead of the other names, and for DNS names only (A101).
        allowed, names = (Exact(tls.sni),), [pair for pair in names if pair[0] == "DNS"]
    # A29: an empty list has nothing to match, so whoever the roots vouch for is the right peer.
    if not allowed or any(_matches(each, *pair) for each in allowed for pair in names):
        return None
    shown = ", ".join(name for _, name in names) or "none at all"
    wanted = " or ".join(map(in_words, allowed))
    return f"certificate check failure: the cluster allows none of the peer's names ({shown}), but {wanted}"


# A29 names these four; what else a certificate may have (otherName, a directory) is no name of a host.
_KINDS = ("DNS", "URI", "email", "IP Address")


def _matches(allowed: TextMatch, kind: str, name: str) -> bool:
    if kind not in _KINDS:
        return False
    # A29: it is the certificate that may have the wildcard, and for exact matchers of DNS names only.
    if kind == "DNS" and isinstance(allowed, Exact):
        return _is_host(allowed.text, name)
    # A29: IPv6 addresses are compared in their shortest form, in lower case; Python's ssl writes them out in capitals.
    return allowed.matches(_canonical(name) if kind == "IP Address" else name)


def _is_host(host: str, name: str) -> bool:
    """Return whether the name is the host. Case does not count; a leading `*.` stands for one whole label."""
    host, name = (text.lower().rstrip(".") for text in (host, name))
    if not name.startswith("*."):
        return host == name
    label, dot, domain = host.partition(".")
    # RFC 6125 6.4.3: the star is one whole label. "*.com" is refused besides: it would do for every company's hosts.
    return bool(label and dot) and domain == name[2:] and "." in domain


def _canonical(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address.strip()))
    except ValueError:
        return address
