"""The match of a route: path, headers, and a fraction of the RPCs (A28, A63)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .matchers import (
    Contains,
    Exact,
    HeaderMatch,
    PathMatch,
    Prefix,
    Present,
    Range,
    Suffix,
    TextMatch,
    parse_regex_matcher,
    parse_string_matcher,
)
from .units import per_million
from .validation_errors import ValidationErrors


class RouteMatch(Struct, frozen=True, gc=False):
    """A match: all three must agree; `fraction` (RPCs per million) is drawn last, and 0 never matches."""

    path: PathMatch
    headers: tuple[HeaderMatch, ...] = ()
    fraction: int | None = None


def parse_route_match(route: Any, problems: ValidationErrors) -> RouteMatch | None:
    """Return the match; None if gRPC skips the route, or if it has a problem."""
    if not problems.has_field(route, "match"):
        return None
    match, at = route.match, problems.at("match")
    if match.query_parameters:
        return None  # A28: an RPC has no query, so such a route is skipped without further checks
    path = _path_match(match, at)
    if path is None:
        return None
    headers = (_header_match(each, at.at(f"headers[{index}]")) for index, each in enumerate(match.headers))
    return RouteMatch(path, tuple(header for header in headers if header is not None), _fraction(match, at))


def _path_match(match: Any, problems: ValidationErrors) -> PathMatch | None:
    # case_sensitive is a wrapper: unset means true. It does not apply to expressions, which have (?i).
    ignore_case = match.HasField("case_sensitive") and not match.case_sensitive.value
    match match.WhichOneof("path_specifier"):
        case "prefix":
            return Prefix(match.prefix, ignore_case) if _can_begin_a_method(match.prefix) else None
        case "path":
            return Exact(match.path, ignore_case) if _can_be_a_method(match.path) else None
        case "safe_regex":
            return parse_regex_matcher(match.safe_regex, "error creating path matcher", problems)
        # A28: this rejects the resource, while an unknown cluster specifier only skips the route.
        case _:
            problems.add("invalid path specifier")
            return None


def _can_be_a_method(path: str) -> bool:
    """Return whether the path has the form `/service/method`. Any other route is skipped: no RPC can match it."""
    match path.split("/", 3):
        case ["", service, method]:
            return bool(service and method)
        case _:
            return False


def _can_begin_a_method(prefix: str) -> bool:
    match prefix.split("/", 3):
        case [""] | ["", _]:
            return True
        case ["", service, _]:
            return bool(service)
        case _:
            return False


def _header_match(message: Any, problems: ValidationErrors) -> HeaderMatch | None:
    """Return the matcher. One without a name is valid and matches nothing: no header has an empty name."""
    test = _header_test(message, problems)
    # Metadata keys are lower case. The C++ client compares the name as written, so its "X-User" never matches.
    return HeaderMatch(message.name.lower(), test, message.invert_match) if test is not None else None


def _header_test(message: Any, problems: ValidationErrors) -> TextMatch | Range | Present | None:
    match message.WhichOneof("header_match_specifier"):
        case "exact_match":
            return Exact(message.exact_match)
        case "prefix_match":
            return Prefix(message.prefix_match)
        case "suffix_match":
            return Suffix(message.suffix_match)
        case "contains_match":
            return Contains(message.contains_match)
        case "safe_regex_match":
            return parse_regex_matcher(message.safe_regex_match, "cannot create header matcher", problems)
        case "range_match":
            return _range(message.range_match, problems)
        case "present_match":
            return Present(message.present_match)
        case "string_match":
            return parse_string_matcher(message.string_match, problems.at("string_match"))
        # A28: also for the unsafe regex_match. Without the test the route would match too many RPCs.
        case _:
            problems.add("invalid header matcher")
            return None


def _range(message: Any, problems: ValidationErrors) -> Range | None:
    # Equal ends are valid, as in the C++ client: [7, 7) never matches.
    if message.end < message.start:
        problems.add(
            "cannot create header matcher: Invalid range specifier specified: end cannot be smaller than start."
        )
        return None
    return Range(message.start, message.end)


def _fraction(match: Any, problems: ValidationErrors) -> int | None:
    # A28: gRPC has no runtime, so runtime_key is ignored and the default value is used.
    if not match.runtime_fraction.HasField("default_value"):
        return None
    return per_million(match.runtime_fraction.default_value, problems.at("runtime_fraction.default_value"))
