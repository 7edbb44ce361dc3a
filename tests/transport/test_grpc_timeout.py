from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trxds.transport.grpc_timeout import decode_timeout, encode_timeout


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, b"1n"),
        (-3, b"1n"),
        (1e-9, b"1n"),
        (0.05, b"50000000n"),
        (0.1, b"100000u"),
        (1, b"1000000u"),
        (99.999999, b"99999999u"),
        (100, b"100000m"),
        (200_000, b"200000S"),
        (1e8, b"1666667M"),
        (1e20, b"99999999H"),
    ],
)
def test_a_timeout_takes_the_finest_unit_that_holds_it(seconds, text):
    assert encode_timeout(seconds) == text


@given(st.floats(min_value=1e-9, max_value=3e11))
def test_a_timeout_is_never_shortened_and_hardly_lengthened(seconds):
    sent = decode_timeout(encode_timeout(seconds))
    assert sent is not None
    assert sent >= seconds * (1 - 1e-6)
    assert sent <= seconds * (1 + 2e-5) + 1e-9


@pytest.mark.parametrize("text", [b"", b"1", b"S", b"123456789S", b"-1S", b"1s", b"1.5S", b"1S "])
def test_a_text_that_is_no_timeout_is_none(text):
    assert decode_timeout(text) is None


def test_a_timeout_is_read_in_every_unit():
    assert [decode_timeout(b"2" + unit) for unit in (b"H", b"M", b"S")] == [7200, 120, 2]
    assert math.isclose(decode_timeout(b"2m"), 0.002)
