"""Which routes of a target the calls of a rehearsal can take: what would happen on the others is not seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from trxds.cli.control_plane import AnyName
from trxds.client.shared_xds_client import parse_context
from trxds.core import metadata as md
from trxds.core.plural import plural
from trxds.resolver.index import RouteIndex
from trxds.resources.filters import HTTP_FILTERS
from trxds.resources.matchers import Exact, Pattern, Prefix, describe_matcher
from trxds.resources.protos import from_json
from trxds.resources.route import Route, RouteConfig, find_virtual_host
from trxds.resources.route_match import RouteMatch
from trxds.resources.types import RDS
from trxds.resources.units import MILLION

from .plan import Call

_REMEDIES = {
    "path": "no call has the path of {}: name a method there by --method",
    "metadata": "no call has the headers of {}: give them by --method '/package.Service/Method KEY:VALUE', or by -H",
    "earlier": "earlier routes take each call that would reach {}: name others by --method",
}


def untried(tables: Iterable[Any], authority: str, calls: Iterable[Call]) -> Iterator[str]:
    """Yield the routes of a target that no call takes, grouped by the reason.

    `tables` are the RouteConfigurations that the target has, one after the other. A route that clients skip, or that no
    call at all could reach, is not one of them.
    """
    context = parse_context(AnyName(), {}, HTTP_FILTERS)
    pairs = [(each.path, metadata_of(each)) for each in calls]
    found: dict[str, str] = {}
    for table in tables:
        parsed = RDS.read(from_json({"@type": RDS.type_url, **table}), context).value
        host = find_virtual_host(parsed.virtual_hosts, authority) if isinstance(parsed, RouteConfig) else None
        if host is not None:
            found |= {_text(host.routes[at].match): reason for at, reason in _untaken(host.routes, pairs)}
    for reason, note in _REMEDIES.items():
        routes = [text for text, why in found.items() if why == reason]
        if routes:
            more = f"{plural(len(routes), 'route')}, such as " if len(routes) > 1 else "the route for "
            yield note.format(f"{more}{routes[0]}")


def metadata_of(call: Call) -> md.Metadata:
    """Return a call's metadata as a channel takes it."""
    return md.Metadata([(key, md.from_text(key, text)) for key, text in call.metadata])


def _untaken(routes: Sequence[Route], calls: list[tuple[str, md.Metadata]]) -> Iterator[tuple[int, str]]:
    """Yield the numbers of the routes that no call takes, each with the reason."""
    matches = [route.match for route in routes]
    index = RouteIndex(matches)
    taken, with_headers, with_path = set[int](), set[int](), set[int]()
    for path, metadata in calls:
        is_open = True
        for number in index.candidates(path).positions:
            match = matches[number]
            with_path.add(number)
            if all(header.matches(metadata) for header in match.headers) and match.fraction != 0:
                with_headers.add(number)
                if is_open:
                    taken.add(number)
                is_open = is_open and match.fraction is not None and match.fraction < MILLION
    for number, match in enumerate(matches):
        if number not in taken and match.fraction != 0 and _can_be_taken(number, matches, index):
            yield number, "earlier" if number in with_headers else "metadata" if number in with_path else "path"


def _can_be_taken(number: int, matches: Sequence[RouteMatch], index: RouteIndex) -> bool:
    """Return whether a call can take the route, as far as paths tell: some route before it may take all of them."""
    path = matches[number].path
    if isinstance(path, Pattern):
        positions = index.candidates("/\0").positions
        return not any(_takes_all(matches[each]) for each in positions if each < number)
    # No other route has the path of a prefix with a NUL behind it, unless it takes whatever follows.
    text = path.text if isinstance(path, Exact) else f"{path.text or '/'}\0"
    return number in index.candidates(text).positions


def _takes_all(match: RouteMatch) -> bool:
    return not match.headers and match.fraction in (None, MILLION)


def _text(match: RouteMatch) -> str:
    path = describe_matcher(match.path) if match.path != Prefix("") else "any path"
    headers = [f"header {each.name}: {'not ' * each.invert}{describe_matcher(each.test)}" for each in match.headers]
    return " with ".join((path, *headers))
