"""The changes of a snapshot that mean that a new configuration is in force. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from trxds.xds.resource import CacheState

from .messages import Change, ConfigApplied, Row, State

_NAMED = 5  # resources, in one mark


def config_applied_events(before: State, changes: Iterable[Change], time: float) -> list[ConfigApplied]:
    """Return one event for each channel that got new resources or lost some. A refused resource changes nothing."""
    news: defaultdict[str, list[str]] = defaultdict(list)
    known = before.get("resources", {})
    for change in changes:
        row = change["value"]
        if change["section"] == "resources" and row is not None:
            text = _text(known.get(change["key"], {}), row)
            if text:
                news[row["channel"]].append(text)
    return [
        {"kind": "config_applied", "time": time, "channel": channel, "text": _short(texts)}
        for channel, texts in news.items()
    ]


def _text(before: Row, now: Row) -> str:
    name = f"{now['type']} {now['name']}"
    match CacheState(now["state"]):
        case CacheState.ACKED if any(before.get(field) != now[field] for field in ("state", "since", "version")):
            return f"{name} {now['version']}".rstrip()
        case CacheState.DOES_NOT_EXIST if before.get("state") != now["state"]:
            return f"{name} is gone"
    return ""


def _short(texts: list[str]) -> str:
    more = len(texts) - _NAMED
    return ", ".join(texts[:_NAMED]) + (f" and {more} more" if more > 0 else "")
