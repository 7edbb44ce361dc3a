"""Dates in `Expires` are parsed as by browsers (RFC 6265 §5.1.1)."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trxds.session_affinity.cookie_jar import parse_cookie_date

THEN = 784_111_777.0  # 1994-11-06 08:49:37 UTC


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",  # RFC 9110's
        "Sunday, 06-Nov-94 08:49:37 GMT",  # RFC 850's
        "Sun Nov  6 08:49:37 1994",  # asctime's
        "Sun, 06-Nov-1994 08:49:37 GMT",  # Netscape's
        "06 nOVEMBER 1994 8:49:37 +0500",  # zones count for nothing
        "08:49:37 1994 06 Nov",
        "6th Nov 1994x 08:49:37.25",
        "06 Nov 1994 08:49:37, 07 Dec 1995 09:50:38",  # the first of each counts
    ],
)
def test_a_cookie_date_is_parsed_in_all_forms_of_browsers(text):
    assert parse_cookie_date(text) == THEN


@pytest.fixture
def in_new_york(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


def test_a_cookie_date_is_utc_wherever_the_machine_is(in_new_york):
    assert parse_cookie_date("Sun, 06 Nov 1994 08:49:37 GMT") == THEN


@pytest.mark.parametrize(
    ("year", "means"), [("69", "2069"), ("00", "2000"), ("70", "1970"), ("99", "1999"), ("1601", "1601")]
)
def test_a_cookie_dates_two_digit_year_is_from_1970_to_2069(year, means):
    assert parse_cookie_date(f"01 Jan {year} 00:00:00") == parse_cookie_date(f"01 Jan {means} 00:00:00") is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "06 Nov 1994",
        "06 Nov 08:49:37",
        "06 1994 08:49:37",
        "Nov 1994 08:49:37 ",
        "30 Feb 1994 08:49:37",
        "00 Nov 1994 08:49:37",
        "06 Nov 1600 08:49:37",
        "06 Nov 1994 24:00:00",
        "06 Nov 1994 08:60:00",
        "06 Nov 1994 08:49:60",
        "06 Nov 19945 08:49:37",
        "\u0666 Nov 1994 08:49:37",
    ],
)
def test_an_invalid_cookie_date_is_none(text):
    assert parse_cookie_date(text) is None


@given(st.text())
def test_parsing_a_cookie_date_never_raises(text):
    parse_cookie_date(text)
