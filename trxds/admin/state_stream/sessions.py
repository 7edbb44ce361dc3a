"""Rows of sessions: the host of each, and why it moved last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from trxds.session_affinity.session import SessionCookies
from trxds.session_affinity.session_events import SessionMoved

from .messages import Move as MoveRow
from .messages import SessionRow

Epoch = Callable[[float], float]


def sessions(channel: str, open_: Iterable[SessionCookies], epoch: Epoch) -> Iterator[tuple[str, SessionRow]]:
    for each in sorted(open_, key=lambda session: session.number):
        yield (
            key_of(channel, each),
            {
                "channel": channel,
                "host": each.host,
                "cluster": each.cluster,
                "since": epoch(each.since),
                "calls": each.calls,
                "moves": each.moves,
                "last_move": None if each.last_move is None else _move(each.last_move, epoch),
            },
        )


def key_of(channel: str, session: SessionCookies) -> str:
    return f"{channel}/{session.number}"


def _move(move: SessionMoved, epoch: Epoch) -> MoveRow:
    return {
        "time": epoch(move.at),
        "from": move.old.host,
        "to": move.new.host,
        "reason": move.reason.value,
        "change": move.change,
    }
