"""A SPIFFE bundle map: the authorities of each trust domain, from a JSON document (A87).

One invalid entry makes the whole map invalid, as in gRPC's other clients: a map without it might refuse peers that it
should not, and nobody would see why.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
from collections.abc import Mapping
from typing import ClassVar

from trxds.core.json_parse import parse_json
from trxds.core.json_reader import JsonNode, Problem, kind_of
from trxds.core.redacted_struct import RedactedStruct

from .der import check_one_element

TRUST_DOMAIN = re.compile(r"[a-z0-9._-]{1,255}", re.ASCII)

_KEY_TYPES = ("RSA", "EC")
_USE = "x509-svid"
_MAX_SHOWN = 5  # trust domains, or problems, in one line


class BundleMap(RedactedStruct, frozen=True):
    """The certificates (in DER) of each trust domain's authorities; `origin` says where they are from."""

    redacted: ClassVar[frozenset[str]] = frozenset({"domains"})
    origin: str
    domains: Mapping[str, frozenset[bytes]]

    @property
    def roots(self) -> frozenset[bytes]:
        """Return the union of all authorities."""
        return frozenset().union(*self.domains.values())

    def __str__(self) -> str:
        names = sorted(self.domains)
        more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
        return f"SPIFFE bundle map {self.origin} (trust domains: {', '.join(names[:_MAX_SHOWN]) or 'none'}{more})"


def parse_bundle_map(document: bytes, origin: str) -> BundleMap:
    """Return the map; `ValueError` lists its problems, each with its place. A map without trust domains is valid."""
    try:
        top = parse_json(document)
    except json.JSONDecodeError as error:
        raise ValueError(f"no valid JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except UnicodeDecodeError:
        raise ValueError("it is no text in UTF-8") from None
    problems: list[Problem] = []
    node = JsonNode(top, problems)
    node.report_repeated()
    domains = _domains(node)
    if problems:
        more = f"; and {len(problems) - _MAX_SHOWN} more" if len(problems) > _MAX_SHOWN else ""
        raise ValueError("; ".join(map(str, problems[:_MAX_SHOWN])) + more)
    return BundleMap(origin, domains)


def _domains(top: JsonNode) -> dict[str, frozenset[bytes]]:
    if not isinstance(top.value, Mapping):
        top.error(f'is {kind_of(top.value)}; write {{"trust_domains": {{}}}}')
        return {}
    domains = top.member("trust_domains")
    if domains.value is None:
        domains.error("is missing; write an object with a bundle for each trust domain")
    return {name: _bundle(name, node) for name, node in domains.members().items()}


def _bundle(name: str, node: JsonNode) -> frozenset[bytes]:
    if TRUST_DOMAIN.fullmatch(name) is None:
        node.error("is no trust domain; write up to 255 lower-case letters, digits, dots, dashes and underscores")
    if node.value is None:
        node.error("is null; write an object")
    sequence, keys = node.member("spiffe_sequence"), node.member("keys")
    if sequence.value is not None and (isinstance(sequence.value, bool) or not isinstance(sequence.value, int)):
        sequence.error(f"is {kind_of(sequence.value)}; write a whole number")
    if node.has_object() and keys.value is None:
        # SPIFFE: a bundle must have it. An empty list takes back the trust in a domain, so it is to be written down.
        keys.error("is missing; write [] for a domain that nobody trusts")
    return frozenset(filter(None, map(_authority, keys.items())))


def _authority(key: JsonNode) -> bytes | None:
    if not key.has_object():
        return None
    kind, use, chain = key.member("kty"), key.member("use"), key.member("x5c")
    if kind.text() not in _KEY_TYPES:
        kind.error(f"is {kind.value!r:.40}; write RSA or EC")
    if use.text() != _USE:
        use.error(f'is {use.value!r:.40}; write "{_USE}", and leave out the keys for other uses')
    certificates = chain.items()
    if len(certificates) != 1:
        chain.error(f"has {len(certificates)} certificates; write exactly one")
        return None
    return _certificate(certificates[0])


def _certificate(node: JsonNode) -> bytes | None:
    try:
        der = base64.b64decode(node.text(), validate=True)
        check_one_element(der)  # OpenSSL would take a second certificate behind the first
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=der)
    except (ValueError, ssl.SSLError):
        node.error("is no certificate; write its DER in base64")
        return None
    return der
