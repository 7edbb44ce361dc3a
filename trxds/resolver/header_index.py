"""An index of one path's routes by exact header values, for tables that route each tenant by a header (A28).

Each route is filed under one of its exact matchers. The index only leaves out routes whose header differs, and the
selector would skip those before it draws a number for a fraction: so the choice stays that of the first match.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from itertools import chain
from typing import TypeAlias

from trxds.core.metadata import Metadata
from trxds.resources.matchers import Exact, fold, header_value
from trxds.resources.route_match import RouteMatch

_Value: TypeAlias = str | bytes  # folded, and so bytes, if the matcher ignores case
_ExactHeader: TypeAlias = tuple[str, _Value]

# Few positions are sorted in a tenth of a merge's time. A merge of many ends at the first route that matches.
MAX_SORTED = 100


class HeaderIndex:
    """The routes that match one path; a route is its position."""

    def __init__(self, matches: Mapping[int, RouteMatch]) -> None:
        self._headers: dict[str, dict[_Value, list[int]]] = {}
        self._unindexed: list[int] = []  # routes without an exact header
        exact_headers = [_exact_headers(match) for match in matches.values()]
        distinct = _distinct_values(exact_headers)
        for position, exact in zip(matches, exact_headers, strict=True):
            if not exact:
                self._unindexed.append(position)
                continue
            # The header with the most values leaves the fewest routes to try.
            name, value = exact[0] if len(exact) == 1 else max(exact, key=lambda each: len(distinct[each[0]]))
            self._headers.setdefault(name, {}).setdefault(value, []).append(position)
        most = sum(max(map(len, by_value.values())) for by_value in self._headers.values())
        self._max_candidates = len(self._unindexed) + most
        # A merged walk costs more for each route than a plain one, so it has to spare every RPC half of them.
        self.is_worthwhile = 2 * self._max_candidates <= len(matches)

    def candidates(self, metadata: Metadata) -> Iterable[int]:
        """Return the routes that may match, in order."""
        found = [self._unindexed]
        for name, by_value in self._headers.items():
            value = header_value(metadata, name)
            if value is not None:  # no exact matcher accepts an absent header
                found += [by_value[each] for each in (value, fold(value)) if each in by_value]
        return sorted(chain(*found)) if self._max_candidates <= MAX_SORTED else merge(*found)


def _exact_headers(match: RouteMatch) -> list[_ExactHeader]:
    return [
        (header.name, fold(test.text) if test.ignore_case else test.text)
        for header in match.headers
        if isinstance(test := header.test, Exact) and not header.invert
    ]


def _distinct_values(exact_headers: Sequence[list[_ExactHeader]]) -> dict[str, set[_Value]]:
    distinct: dict[str, set[_Value]] = {}
    for exact in exact_headers:
        if len(exact) > 1:  # a route with one has no choice
            for name, value in exact:
                distinct.setdefault(name, set()).add(value)
    return distinct
