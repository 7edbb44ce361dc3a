"""DER that is no certificate or revocation list is refused with the reason."""

from __future__ import annotations

import pytest

from trxds.transport.der import crl_facts


def element(tag: int, content: bytes = b"") -> bytes:
    return bytes([tag, len(content)]) + content


def signed(*fields: bytes) -> bytes:
    return element(0x30, element(0x30, b"".join(fields)))


@pytest.mark.parametrize(
    ("der", "problem"),
    [
        (element(0x30, element(0x02, b"\1")), "it has not the form of a certificate or revocation list"),
        (element(0x30) * 2, "it has not the form of a certificate or revocation list"),
        (signed(element(0x02, b"\1"), element(0x30), element(0x30)), "it is too short for a revocation list"),
        (signed(element(0x30), element(0x30), element(0x04)), "it has no time where a revocation list has one"),
        (b"\x30\x05\x30", "it was cut off"),
        (b"\x30\x80\0\0", "it is no DER, or was cut off"),
    ],
)
def test_what_is_no_revocation_list_is_refused_with_the_reason(der: bytes, problem: str) -> None:
    with pytest.raises(ValueError) as caught:
        crl_facts(der)
    assert str(caught.value) == problem
