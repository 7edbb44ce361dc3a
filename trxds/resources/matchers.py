"""Matchers of a path or of a header's value (A28, A63).

The same text matchers serve both: `Exact`, `Prefix` and `Pattern` match paths, and all of them match headers.
`header_value` has the rules for looking a header up.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias, assert_never

from msgspec import Struct

from trxds.core.metadata import Metadata, Value

from .regex import Regex
from .validation_errors import ValidationErrors


def fold(text: str) -> bytes:
    """Return the text in lower case, in ASCII only: characters of other scripts must not fold into ASCII ones."""
    return text.encode("utf-8", "surrogatepass").lower()


# -- texts


class _Text(Struct, frozen=True, gc=False):
    text: str
    ignore_case: bool = False


class Exact(_Text, frozen=True):
    """A matcher of the whole text."""

    def matches(self, value: str) -> bool:
        return fold(value) == fold(self.text) if self.ignore_case else value == self.text


class Prefix(_Text, frozen=True):
    """A matcher of texts with this beginning; the empty prefix matches all."""

    def matches(self, value: str) -> bool:
        return fold(value).startswith(fold(self.text)) if self.ignore_case else value.startswith(self.text)


class Suffix(_Text, frozen=True):
    """A matcher of texts with this end."""

    def matches(self, value: str) -> bool:
        return fold(value).endswith(fold(self.text)) if self.ignore_case else value.endswith(self.text)


class Contains(_Text, frozen=True):
    """A matcher of texts with this part."""

    def matches(self, value: str) -> bool:
        return fold(self.text) in fold(value) if self.ignore_case else self.text in value


class Pattern(Struct, frozen=True, gc=False):
    """A matcher of texts that the expression matches as a whole; it has its own syntax to ignore case."""

    regex: Regex

    def matches(self, value: str) -> bool:
        return self.regex.matches(value)


TextMatch: TypeAlias = Exact | Prefix | Suffix | Contains | Pattern
PathMatch: TypeAlias = Exact | Prefix | Pattern


def parse_string_matcher(message: Any, problems: ValidationErrors) -> TextMatch | None:
    """Return the matcher of a StringMatcher; None, and a problem, if it is of an unknown kind."""
    match message.WhichOneof("match_pattern"):
        case "exact":
            return Exact(message.exact, message.ignore_case)
        case "prefix":
            return Prefix(message.prefix, message.ignore_case)
        case "suffix":
            return Suffix(message.suffix, message.ignore_case)
        case "contains":
            return Contains(message.contains, message.ignore_case)
        case "safe_regex":
            # A63: ignore_case does not apply to expressions, which have (?i).
            return parse_regex_matcher(message.safe_regex, "cannot create string matcher", problems)
        # Also `custom`, and a newer kind than the generated messages have, which protobuf shows as unset.
        case _:
            problems.add("invalid string matcher")
            return None


def parse_regex_matcher(message: Any, subject: str, problems: ValidationErrors) -> Pattern | None:
    """Return the matcher of a RegexMatcher; `subject` begins the problem of an invalid expression."""
    try:
        return Pattern(Regex(message.regex))
    except ValueError as error:
        problems.add(f"{subject}: Invalid regex string specified in matcher: {error}")
        return None


# -- headers

# The syntax of the C++ client's parser. int() takes more: "1_000", and the digits of every script.
_INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)[ \t\n\v\f\r]*\Z")
INT64_LIMIT = 2**63


def parse_integer(value: str) -> int | None:
    """Return a decimal 64-bit integer or None; "+3" and " 09" are integers, "1.5" is not."""
    number = _INTEGER.match(value)
    # Longer than any 64-bit number: int() is quadratic in its digits.
    if number is None or len(number[1].lstrip("+-0")) > 19:
        return None
    parsed = int(number[1])
    return parsed if -INT64_LIMIT <= parsed < INT64_LIMIT else None


class Range(Struct, frozen=True, gc=False):
    """A matcher of integers from `start` to below `end`."""

    start: int
    end: int

    def matches(self, value: str) -> bool:
        number = parse_integer(value)
        return number is not None and self.start <= number < self.end


class Present(Struct, frozen=True, gc=False):
    """A matcher that tests whether the header is there (or, with `present` False, is not)."""

    present: bool = True


class HeaderMatch(Struct, frozen=True, gc=False):
    """A matcher of one header of the call; `name` is in lower case."""

    name: str
    test: TextMatch | Range | Present
    invert: bool = False

    def matches(self, metadata: Metadata) -> bool:
        return self.accepts(header_value(metadata, self.name))

    def accepts(self, value: str | None) -> bool:
        """Return whether this value of `header_value` matches, for callers that look up each name once."""
        if isinstance(self.test, Present):
            return ((value is not None) == self.test.present) is not self.invert
        if value is None:
            return False  # also when inverted: only a header that is there can differ
        return self.test.matches(value) is not self.invert


def header_value(metadata: Metadata, name: str) -> str | None:
    """Return a header as matchers and hash policies see it: its values joined by commas.

    Binary headers are never visible, and the content type is always gRPC's (A28).
    """
    if name.endswith("-bin"):
        return None
    if name == "content-type":
        return "application/grpc"
    # Joined before the match, as in the C++ client; Envoy's matchers may see a single value.
    values: list[Value] = metadata.all(name)
    return ",".join(value for value in values if isinstance(value, str)) if values else None


def describe_matcher(test: TextMatch | Range | Present) -> str:
    """Describe what a matcher accepts."""
    match test:
        case Exact(text):
            words = f'"{text}"'
        case Prefix(text):
            words = f'"{text}" and anything after it' if text else "any"
        case Suffix(text):
            words = f'anything that ends in "{text}"'
        case Contains(text):
            words = f'anything that contains "{text}"'
        case Pattern(regex):
            return f"a match of {regex.pattern!r}"
        case Range(start, end):
            return f"a number from {start} to below {end}"
        case Present(present):
            return "any" if present else "absent"
        case _ as never:
            assert_never(never)
    return f"{words}, in any case" if test.ignore_case else words
