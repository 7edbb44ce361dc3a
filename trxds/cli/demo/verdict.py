"""The demo's promises, checked against the record of a run.

A session may leave its host only after that host was removed; every other move breaks the promise,
and so does a session that is still on a removed host, a failed RPC, or a step that did not happen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from trxds.core.plural import plural


class Move(Struct, frozen=True):
    """A session reached `new` after `old`; `at` is in seconds since the demo began."""

    session: str
    old: str
    new: str
    at: float


@dataclass(slots=True)
class Record:
    """The data for the verdict, recorded while the demo runs."""

    expected: int = 0  # RPCs
    done: int = 0
    failures: list[str] = field(default_factory=list)
    host_of: dict[str, str] = field(default_factory=dict)  # session -> the host it met last
    moves: list[Move] = field(default_factory=list)
    removed_at: dict[str, float] = field(default_factory=dict)  # host -> seconds
    steps_left: list[str] = field(default_factory=list)
    by_host: dict[str, int] = field(default_factory=dict)  # RPCs of any kind

    def met(self, host: str) -> None:
        self.done += 1
        self.by_host[host] = self.by_host.get(host, 0) + 1

    def met_in_session(self, session: str, host: str, at: float) -> None:
        old = self.host_of.get(session, host)
        if old != host:
            self.moves.append(Move(session, old, host, at))
        self.host_of[session] = host
        self.met(host)

    def failed(self, caller: str, error: object) -> None:
        self.done += 1
        self.failures.append(f"{caller}: {error}")


class Verdict(Struct, frozen=True):
    """The lines to show, and whether every promise held."""

    lines: tuple[str, ...]
    broken: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.broken


def judge(record: Record) -> Verdict:
    explained = [move for move in record.moves if _host_was_gone(move, record.removed_at)]
    lines = (
        f"RPCs:     {record.done} of {record.expected}",
        f"failures: {len(record.failures)}",
        f"sessions: {len(record.host_of)}, of which {len({move.session for move in record.moves})} moved",
        *(f"  {move.session}: {move.old} -> {move.new}, because {move.old} was removed" for move in explained),
    )
    return Verdict(lines, tuple(_broken_promises(record, explained)))


def _host_was_gone(move: Move, removed_at: Mapping[str, float]) -> bool:
    return move.at >= removed_at.get(move.old, math.inf)


def _broken_promises(record: Record, explained: Iterable[Move]) -> Iterator[str]:
    if record.failures:
        yield f"{plural(len(record.failures), 'RPC')} failed, the first: {record.failures[0]}"
    if record.done != record.expected:
        yield f"{record.done} RPCs ended, {record.expected} were meant to"
    unexplained = [move for move in record.moves if move not in set(explained)]
    if unexplained:
        first = unexplained[0]
        yield (
            f"{plural(len({move.session for move in unexplained}), 'session')} left a host that was still there "
            f"({plural(len(unexplained), 'time')}), the first: {first.session}, {first.old} -> {first.new}"
        )
    stuck = sorted(session for session, host in record.host_of.items() if host in record.removed_at)
    if stuck:
        yield f"sessions still on a removed host: {', '.join(stuck)}"
    if record.steps_left:
        yield f"did not happen: {', '.join(record.steps_left)}"
