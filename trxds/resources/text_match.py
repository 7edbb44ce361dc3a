"""StringMatcher and RegexMatcher, the two messages in which xDS says what a text should be (A28, A29, A63)."""

from __future__ import annotations

from typing import Any

from .matchers import Contains, Exact, Pattern, Prefix, Suffix, TextMatch
from .problems import Problems
from .regex import Regex


def string_match(message: Any, problems: Problems) -> TextMatch | None:
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
            # ignore_case does not concern expressions (A63): they say (?i) themselves.
            return pattern(message.safe_regex, "cannot create string matcher", problems)
        # Also `custom`, and a kind that is younger than our messages, which protobuf shows as unset.
        case _:
            problems.add("invalid string matcher")
            return None


def pattern(message: Any, subject: str, problems: Problems) -> Pattern | None:
    """`subject` is what cannot be made of an expression that is none."""
    try:
        return Pattern(Regex(message.regex))
    except ValueError as error:
        problems.add(f"{subject}: Invalid regex string specified in matcher: {error}")
        return None
