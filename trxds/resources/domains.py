"""The choice of the virtual host for an authority (A28; the rules are Envoy's).

An exact domain goes before a suffix `*.example.com`, that before a prefix `example.*`, and `*` is last. Within a kind
the longest domain wins, and of equals the first.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Protocol, TypeVar


class HasDomains(Protocol):
    """The part of a virtual host that the choice needs."""

    @property
    def domains(self) -> Sequence[str]: ...


Host = TypeVar("Host", bound=HasDomains)


class DomainKind(enum.IntEnum):
    """The kinds of domain patterns, the preferred first."""

    EXACT = 0
    SUFFIX = 1
    PREFIX = 2
    UNIVERSAL = 3


def domain_kind(domain: str) -> DomainKind | None:
    """Return the kind; None for what is no domain pattern: an empty text, or a star in the middle."""
    if domain == "*":
        return DomainKind.UNIVERSAL
    if domain.startswith("*"):
        return DomainKind.SUFFIX  # also "*a*", which then matches no host
    if domain.endswith("*"):
        return DomainKind.PREFIX
    return DomainKind.EXACT if domain and "*" not in domain else None


def domain_matches(domain: str, authority: str) -> bool:
    """Return whether the pattern matches. Case does not matter; a star stands for at least one character."""
    # RFC 4343: host names ignore case, and so does the C++ client; grpc-go compares them as written.
    domain, authority = domain.lower(), authority.lower()
    match domain_kind(domain):
        case DomainKind.EXACT:
            return authority == domain
        case DomainKind.SUFFIX:
            return len(authority) >= len(domain) and authority.endswith(domain[1:])
        case DomainKind.PREFIX:
            return len(authority) >= len(domain) and authority.startswith(domain[:-1])
        case DomainKind.UNIVERSAL:
            return True
        case None:
            return False


def find_virtual_host(virtual_hosts: Sequence[Host], authority: str) -> Host | None:
    """Return the virtual host for that authority; None if no domain matches it."""
    # A28: the domain that "most specifically matches" wins: by kind, then the longest, then the first.
    matching = [
        (kind, -len(domain), index)
        for index, virtual_host in enumerate(virtual_hosts)
        for domain in virtual_host.domains
        if (kind := domain_kind(domain)) is not None and domain_matches(domain, authority)
    ]
    return virtual_hosts[min(matching)[2]] if matching else None
