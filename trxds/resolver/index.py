"""An index of routes by path, so that an RPC need not try each route (A28: the first match wins).

Exact paths and prefixes are looked up; those that ignore case by their folded text. Each regular expression before the
first route that takes every RPC is tried once for each path, and the result is cached. Many routes of one path that
differ in exact header values have an index of their own. Other conditions are tried one by one for each RPC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Generic, TypeVar

from msgspec import Struct

from trxds.resources.matchers import PathMatch, Pattern, Prefix, fold
from trxds.resources.route_match import RouteMatch

from .header_index import HeaderIndex

Text = TypeVar("Text", str, bytes)

# How many positions are cached before the cache is cleared; programs call few paths.
MAX_CACHED_POSITIONS = 65_536

# A walk over as many routes costs less than to look up headers and to merge what they find.
MAX_WALKED = 20


class _Texts(Generic[Text]):
    """Exact texts and prefixes, with the positions of the routes that have them."""

    def __init__(self) -> None:
        self._exact: dict[Text, list[int]] = {}
        self._prefixes: dict[Text, list[int]] = {}
        # A path costs one look-up for each length, not one for each prefix.
        self._lengths: set[int] = set()  # of the prefixes

    def add(self, text: Text, position: int, is_prefix: bool) -> None:
        if is_prefix:
            self._prefixes.setdefault(text, []).append(position)
            self._lengths.add(len(text))
        else:
            self._exact.setdefault(text, []).append(position)

    def find(self, text: Text) -> list[list[int]]:
        """Return ascending positions, one list for each entry that matches the text."""
        found = [self._exact[text]] if text in self._exact else []
        for length in self._lengths:
            if length <= len(text) and (positions := self._prefixes.get(text[:length])) is not None:
                found.append(positions)
        return found

    def __bool__(self) -> bool:
        return bool(self._exact or self._prefixes)


class Candidates(Struct, frozen=True):
    """The routes whose path matches, in order, up to the first without another condition. Paths may share them."""

    positions: tuple[int, ...]
    header_index: HeaderIndex | None  # None if the routes are few, or differ in other conditions


class RouteIndex:
    """The index of one table of routes; a route is its position."""

    def __init__(self, matches: Iterable[RouteMatch]) -> None:
        self._matches = tuple(matches)
        self._case_sensitive: _Texts[str] = _Texts()
        self._case_insensitive: _Texts[bytes] = _Texts()
        self._patterns: dict[int, Pattern] = {}
        self._cache: dict[str, Candidates] = {}
        self._shared: dict[tuple[int, ...], Candidates] = {}
        self._cache_room = MAX_CACHED_POSITIONS
        for position, match in enumerate(self._matches):
            self._add(position, match.path)

    def _add(self, position: int, path: PathMatch) -> None:
        if isinstance(path, Pattern):
            self._patterns[position] = path
        elif path.ignore_case:
            self._case_insensitive.add(fold(path.text), position, isinstance(path, Prefix))
        else:
            self._case_sensitive.add(path.text, position, isinstance(path, Prefix))

    def candidates(self, path: str) -> Candidates:
        try:
            return self._cache[path]
        except KeyError:
            return self._find_candidates(path)

    def _find_candidates(self, path: str) -> Candidates:
        positions = tuple(self._reachable(path))
        found = self._shared.get(positions)
        # Positions count, not only paths: a path may match thousands of routes that differ in headers.
        self._cache_room -= 1 if found is not None else 1 + len(positions)
        if self._cache_room < 0:
            self._cache.clear()
            self._shared.clear()
            self._cache_room = MAX_CACHED_POSITIONS
        if found is None:
            found = Candidates(positions, self._header_index(positions))
        self._cache[path] = self._shared[positions] = found
        return found

    def _header_index(self, positions: tuple[int, ...]) -> HeaderIndex | None:
        if len(positions) <= MAX_WALKED:
            return None
        index = HeaderIndex({position: self._matches[position] for position in positions})
        return index if index.is_worthwhile else None

    def _reachable(self, path: str) -> Iterator[int]:
        for position in self._matching(path):
            yield position
            if self._matches_every_rpc(position):
                return

    def _matches_every_rpc(self, position: int) -> bool:
        match = self._matches[position]
        return not match.headers and match.fraction is None

    def _matching(self, path: str) -> Iterator[int]:
        found: list[Iterable[int]] = [*self._case_sensitive.find(path)]
        if self._case_insensitive:
            found += self._case_insensitive.find(fold(path))
        # A28: the first route that matches wins. All of these lists ascend, so their merge does too.
        for position in merge(*found, self._patterns):
            pattern = self._patterns.get(position)
            if pattern is None or pattern.matches(path):
                yield position
