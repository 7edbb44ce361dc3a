from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trxds.core.metadata import Metadata
from trxds.resources.matchers import (
    Contains,
    Exact,
    HeaderMatch,
    Pattern,
    Prefix,
    Present,
    Range,
    Suffix,
    TextMatch,
    header_value,
)
from trxds.resources.regex import Regex, Rewrite

TEXT = st.text("abAB/.", max_size=8)


@pytest.mark.parametrize(
    ("match", "takes", "leaves"),
    [
        (Exact("/a/B"), ["/a/B"], ["/a/b", "/a/Bc", ""]),
        (Exact("/a/B", ignore_case=True), ["/a/b", "/A/B"], ["/a/bc"]),
        (Prefix("/a/"), ["/a/", "/a/b"], ["/A/b", "/b"]),
        (Prefix("/a/", ignore_case=True), ["/A/b"], ["/b/"]),
        (Prefix(""), ["", "/a/b"], []),
        (Suffix("ing"), ["ping", "ing"], ["pinG", "ingo"]),
        (Suffix("ing", ignore_case=True), ["pinG"], ["ingo"]),
        (Contains("b"), ["abc", "b"], ["aBc", ""]),
        (Contains("b", ignore_case=True), ["aBc"], ["ac"]),
        (Pattern(Regex("/a/.")), ["/a/b"], ["/a/bc", "x/a/b", "/a/b\n"]),
        (Pattern(Regex("a|ab")), ["a", "ab"], ["abc"]),
        (Pattern(Regex("(?i)abc")), ["ABC"], ["ABCD"]),
    ],
)
def test_text_matchers_match_by_their_kind(match: TextMatch, takes: list[str], leaves: list[str]) -> None:
    assert [text for text in takes + leaves if match.matches(text)] == takes


def test_ignoring_case_does_not_fold_other_scripts_into_ascii() -> None:
    assert not Exact("/\N{KELVIN SIGN}", ignore_case=True).matches("/k")


@given(TEXT, TEXT)
def test_a_regex_of_a_plain_text_is_the_exact_match(text: str, value: str) -> None:
    assert Pattern(Regex(re.escape(text))).matches(value) == Exact(text).matches(value)


@given(TEXT, TEXT)
def test_a_regex_that_ends_in_anything_is_the_prefix_match(text: str, value: str) -> None:
    assert Pattern(Regex(re.escape(text) + ".*")).matches(value) == Prefix(text).matches(value)


@given(TEXT, TEXT)
def test_ignoring_case_is_comparing_lower_case(text: str, value: str) -> None:
    for kind in (Exact, Prefix, Suffix, Contains):
        assert kind(text, ignore_case=True).matches(value) == kind(text.lower()).matches(value.lower())


def test_a_bad_pattern_says_what_is_wrong_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"missing \): a\("):
        Regex("a(")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)", "(?<!a)b"])
def test_a_pattern_that_needs_backtracking_is_rejected(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"invalid"):
        Regex(pattern)


def test_a_pattern_for_catastrophic_backtracking_is_fast() -> None:
    assert not Regex("(a*)*b").matches("a" * 10_000)


def test_equal_patterns_are_equal_values() -> None:
    assert Regex("a+") == Regex("a+") and Regex("a+") != Regex("a*")
    assert repr(Regex("a+")) == "Regex(pattern='a+')"


@pytest.mark.parametrize(
    ("pattern", "substitution", "text", "rewritten"),
    [
        (r"/user/(\w+)", r"\1", "/user/ann", "ann"),
        (r"[0-9]", "#", "a1b22", "a#b##"),
        (r"(a)(b)?", r"<\0\2>", "ac", "<a>c"),
        (r"x", r"\\", "axb", "a\\b"),
        (r"x", r"y", "abc", "abc"),
        (r"^.*$", "same", "", "same"),
        (r"a*", "x", "baac", "xbxcx"),
        (r"(a)", r"\2", "a", "a"),
        (r"a", r"\d", "a", "a"),
        (r"a", "b\\", "a", "a"),
    ],
)
def test_rewriting_replaces_every_match(pattern: str, substitution: str, text: str, rewritten: str) -> None:
    assert Rewrite(Regex(pattern), substitution).apply(text) == rewritten


# -- ranges


@pytest.mark.parametrize("value", ["3", "+3", " 3", "3 ", "09", "0000000000000000000000000003", "-1"])
def test_a_decimal_integer_is_a_number(value: str) -> None:
    assert Range(-5, 10).matches(value)


@pytest.mark.parametrize("value", ["", "x", "1.5", "1_0", "0x3", "3 4", "3,4", "--3", "²", "9" * 5000])
def test_a_text_that_is_no_decimal_integer_is_no_number(value: str) -> None:
    assert not Range(-(2**63), 2**63 - 1).matches(value)


@example(-(2**63), -(2**63), 0)
@given(st.integers(-(2**64), 2**64), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_a_range_takes_its_start_and_leaves_its_end(value: int, start: int, end: int) -> None:
    in_64_bits = -(2**63) <= value < 2**63
    assert Range(start, end).matches(str(value)) == (in_64_bits and start <= value < end)


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_empty_range_never_matches(value: int) -> None:
    assert not Range(value, value).matches(str(value))


# -- headers

METADATA = Metadata([("env", "a"), ("env", "b"), ("key-bin", b"a"), ("content-type", "text/plain")])


@pytest.mark.parametrize(
    ("name", "value"),
    [("env", "a,b"), ("key-bin", None), ("content-type", "application/grpc"), ("absent", None), (":path", None)],
)
def test_a_header_is_its_values_joined_by_commas(name: str, value: str | None) -> None:
    assert header_value(METADATA, name) == value


def test_a_matcher_sees_the_joined_values() -> None:
    assert HeaderMatch("env", Exact("a,b")).matches(METADATA)
    assert not HeaderMatch("env", Exact("a")).matches(METADATA)


@pytest.mark.parametrize(
    ("match", "when_there", "when_absent"),
    [
        (HeaderMatch("env", Exact("a,b")), True, False),
        (HeaderMatch("env", Exact("a,b"), invert=True), False, False),
        (HeaderMatch("env", Exact("x"), invert=True), True, False),
        (HeaderMatch("env", Range(0, 5), invert=True), True, False),
        (HeaderMatch("env", Present()), True, False),
        (HeaderMatch("env", Present(), invert=True), False, True),
        (HeaderMatch("env", Present(False)), False, True),
        (HeaderMatch("env", Present(False), invert=True), True, False),
    ],
)
def test_an_absent_header_matches_only_an_absence_test(match: HeaderMatch, when_there: bool, when_absent: bool) -> None:
    assert (match.matches(METADATA), match.matches(Metadata())) == (when_there, when_absent)
