"""The parts of certificates and revocation lists that Python's ssl does not show (RFC 5280, in DER).

Nothing here decides about trust: OpenSSL checks signatures, times and chains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec import Struct

_BOOLEAN, _INTEGER, _OCTETS, _UTC_TIME, _GENERALIZED_TIME, _SEQUENCE = 0x01, 0x02, 0x04, 0x17, 0x18, 0x30
_CRL_EXTENSIONS, _CERTIFICATE_EXTENSIONS = 0xA0, 0xA3

# RFC 5280 §4.2.1 and §5.2, as the content of an OBJECT IDENTIFIER.
_KEY_USAGE, _BASIC_CONSTRAINTS = b"\x55\x1d\x0f", b"\x55\x1d\x13"
_DELTA_CRL, _DISTRIBUTION_POINT, _AUTHORITY_KEY = b"\x55\x1d\x1b", b"\x55\x1d\x1c", b"\x55\x1d\x23"

_KEY_CERT_SIGN, _CRL_SIGN = 0x04, 0x02  # in the first byte of the key usage


class CrlKey(NamedTuple):
    """The identity of a revocation list: several issuers may have one name, and a list may be one part of many."""

    issuer: bytes
    authority_key: bytes
    distribution_point: bytes


class CrlFacts(Struct, frozen=True):
    """The facts of a revocation list; `next_update` is None if it never expires."""

    key: CrlKey
    this_update: datetime
    next_update: datetime | None
    is_delta: bool


class CertificateFacts(Struct, frozen=True):
    """Whether a certificate is an authority's, and whether its key usage allows to sign certificates or lists."""

    is_ca: bool
    may_sign: bool


class _Element(NamedTuple):
    tag: int
    encoded: bytes
    content: bytes


def crl_facts(der: bytes) -> CrlFacts:
    """Return the facts of a CertificateList; `ValueError` if it has another form."""
    fields = _fields_of_signed(der)
    if fields and fields[0].tag == _INTEGER:  # the version
        fields = fields[1:]
    if len(fields) < 3:
        raise ValueError("it is too short for a revocation list")
    _signature, issuer, this_update, *rest = fields
    ends = bool(rest) and rest[0].tag in (_UTC_TIME, _GENERALIZED_TIME)
    extensions = _extensions(rest, _CRL_EXTENSIONS)
    key = CrlKey(issuer.encoded, extensions.get(_AUTHORITY_KEY, b""), extensions.get(_DISTRIBUTION_POINT, b""))
    return CrlFacts(key, _time(this_update), _time(rest[0]) if ends else None, _DELTA_CRL in extensions)


def certificate_facts(der: bytes) -> CertificateFacts:
    """Return the facts of a Certificate; `ValueError` if it has another form."""
    extensions = _extensions(_fields_of_signed(der), _CERTIFICATE_EXTENSIONS)
    constraints = _elements(_only(extensions.get(_BASIC_CONSTRAINTS, b"\x30\x00"), _SEQUENCE))
    is_ca = bool(constraints) and constraints[0].tag == _BOOLEAN and constraints[0].content != b"\0"
    # RFC 5280 §4.2.1.3 has it in each authority's certificate, so without it nothing may be signed.
    usage = extensions.get(_KEY_USAGE, b"\x03\x02\x07\x00")
    bits = usage[3] if len(usage) > 3 else 0  # behind tag, length, and the number of unused bits
    return CertificateFacts(is_ca, bool(bits & (_KEY_CERT_SIGN | _CRL_SIGN)))


def check_one_element(der: bytes) -> None:
    """Raise `ValueError` unless the bytes are one SEQUENCE and nothing else."""
    _only(der, _SEQUENCE)


def _fields_of_signed(der: bytes) -> list[_Element]:
    """Return the fields of what is signed: the first element of certificates and of revocation lists."""
    signed = _elements(_only(der, _SEQUENCE))
    if not signed or signed[0].tag != _SEQUENCE:
        raise ValueError("it has not the form of a certificate or revocation list")
    return _elements(signed[0].content)


def _extensions(fields: Sequence[_Element], tag: int) -> Mapping[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for field in fields:
        if field.tag == tag:
            for extension in _elements(_only(field.content, _SEQUENCE)):
                name, *_critical, value = _elements(extension.content)
                if value.tag == _OCTETS:
                    found[name.content] = value.content
    return found


def _only(data: bytes, tag: int) -> bytes:
    """Return the content of the only element in `data`, which has that tag."""
    elements = _elements(data)
    if len(elements) != 1 or elements[0].tag != tag:
        raise ValueError("it has not the form of a certificate or revocation list")
    return elements[0].content


def _elements(data: bytes) -> list[_Element]:
    found: list[_Element] = []
    at = 0
    while at < len(data):
        start = at
        length = data[at + 1] if at + 1 < len(data) else 0x80
        at += 2
        if length >= 0x80:  # so many bytes of length follow; none would be BER's indefinite form
            size = length & 0x7F
            if not 1 <= size <= 4 or at + size > len(data):
                raise ValueError("it is no DER, or was cut off")
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
        end = at + length
        if end > len(data):
            raise ValueError("it was cut off")
        found.append(_Element(data[start], data[start:end], data[at:end]))
        at = end
    return found


def _time(element: _Element) -> datetime:
    text = element.content.decode("ascii")
    if element.tag == _UTC_TIME:  # RFC 5280 §4.1.2.5.1: two digits from 50 on are of the last century
        text = ("19" if text[:2] >= "50" else "20") + text
    elif element.tag != _GENERALIZED_TIME:
        raise ValueError("it has no time where a revocation list has one")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
