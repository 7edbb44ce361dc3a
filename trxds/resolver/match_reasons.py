"""Explanations why a route matches an RPC or does not (A28)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from trxds.core.metadata import Metadata
from trxds.core.plural import plural
from trxds.resources.matchers import HeaderMatch, describe_matcher, header_value
from trxds.resources.route_match import RouteMatch


class Verdict(Struct, frozen=True):
    matches: bool
    reason: str


def match_verdict(match: RouteMatch, path: str, metadata: Metadata, drawn: Iterator[int]) -> Verdict:
    """Return why the route matches, or the first condition that fails; `drawn` yields the selector's random numbers."""
    if not match.path.matches(path):
        return Verdict(False, f"the path is not {describe_matcher(match.path)}")
    reasons = [f"the path is {describe_matcher(match.path)}"]
    for header in match.headers:
        verdict = _header_verdict(header, metadata)
        if not verdict.matches:
            return verdict
        reasons.append(verdict.reason)
    if match.fraction is not None:
        verdict = _fraction_verdict(match.fraction, next(drawn))
        if not verdict.matches:
            return verdict
        reasons.append(verdict.reason)
    return Verdict(True, ", ".join(reasons))


def _header_verdict(header: HeaderMatch, metadata: Metadata) -> Verdict:
    value = header_value(metadata, header.name)
    matches = header.accepts(value)
    wanted = ("not " if header.invert else "") + describe_matcher(header.test)
    return Verdict(matches, f"header {header.name} {_describe_presence(value, matches)} (wanted: {wanted})")


def _describe_presence(value: str | None, matches: bool) -> str:
    """Describe a header without its value, which may be a token: explanations are pasted into tickets."""
    if value is None:
        return "is absent"
    return "matches" if matches else f"has {plural(len(value), 'character')} and does not match"


def _fraction_verdict(fraction: int, drawn: int) -> Verdict:
    return Verdict(drawn < fraction, f"drew {drawn} of a million (wanted: below {fraction})")
