"""The check of the names in a peer's certificate against those that the cluster allows (A29, A101)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trxds.core.authority import canonical_ip, is_same_host

from .matchers import Exact, TextMatch, describe_matcher
from .upstream_tls import UpstreamTls


def wrong_peer(tls: UpstreamTls, certificate: Mapping[str, Any]) -> str | None:
    """Return the error of a verified certificate, or None; it has the form of `ssl.SSLSocket.getpeercert`."""
    allowed: tuple[TextMatch, ...] = tls.names
    # A29: only subjectAltName counts, never the common name, and an empty entry matches nothing.
    names = [(kind, str(name)) for kind, name in certificate.get("subjectAltName", ()) if name]
    if tls.sni_is_name and tls.sni:
        # A101: the SNI replaces the other names, and is compared with DNS names only.
        allowed, names = (Exact(tls.sni),), [pair for pair in names if pair[0] == "DNS"]
    # A29: with an empty list every peer is valid that the roots vouch for.
    if not allowed or any(_matches(each, *pair) for each in allowed for pair in names):
        return None
    shown = ", ".join(name for _, name in names) or "none at all"
    wanted = " or ".join(map(describe_matcher, allowed))
    return f"certificate check failure: the cluster allows none of the peer's names ({shown}), but {wanted}"


# A29 has these four kinds; the others (otherName, a directory name) are no names of hosts.
_KINDS = ("DNS", "URI", "email", "IP Address")


def _matches(allowed: TextMatch, kind: str, name: str) -> bool:
    if kind not in _KINDS:
        return False
    # A29: only the certificate may have a wildcard, and only exact matchers of DNS names honour it.
    if kind == "DNS" and isinstance(allowed, Exact):
        return is_same_host(allowed.text, name)
    # A29: IPv6 addresses are compared in the shortest form, in lower case; Python's ssl has the long one in capitals.
    return allowed.matches(canonical_ip(name) if kind == "IP Address" else name)
