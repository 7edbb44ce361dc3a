"""The page's first question: where would this call go? `channel.explain` answers it and sends nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import trio

from trxds.core.metadata import Metadata, Value, from_text
from trxds.core.policy_names import short_policy_name
from trxds.core.status import RpcError
from trxds.resolver.pick_outcomes import PickDropped, PickFailed, PickQueued
from trxds.resolver.route_explanation import Explanation

from ..channel_source import Source

EXPLAIN_TIMEOUT = 5.0  # seconds for a channel to have a configuration
_SHOWN = 20  # of the routes that were passed


class BadQuestion(Exception):
    """A question that cannot be answered; the message is one line for the page."""


async def explain(channels: Mapping[str, Source], question: Mapping[str, Any]) -> dict[str, Any]:
    """Turn `{"channel", "method", "metadata": [[key, value], ...]}` into what the page shows, or into `{"error"}`.

    The values of -bin keys are base64, as in HTTP/2 headers.
    With `"session"`, the key of an open session, the call has its cookies and session headers too.
    """
    try:
        channel, method, metadata = _read(channels, question)
        return to_json(await channel.explain(method, metadata, EXPLAIN_TIMEOUT))
    except (BadQuestion, ValueError, TypeError, RpcError, trio.ClosedResourceError) as error:
        return {"error": str(error)}


def _read(channels: Mapping[str, Source], question: Mapping[str, Any]) -> tuple[Source, str, list[tuple[str, Value]]]:
    match question:
        case {"channel": str(key), "method": str(method), "metadata": list(pairs)} if all(map(_is_pair, pairs)):
            if key not in channels:
                raise BadQuestion(f"there is no channel {key!r}; there are {', '.join(channels)}")
            metadata: list[tuple[str, Value]] = [(name.lower(), from_text(name, value)) for name, value in pairs]
            session = question.get("session")
            return channels[key], method, _in_session(key, channels[key], session, method, metadata)
    raise BadQuestion("a question has a channel, a method and metadata, a list of pairs of texts")


def _in_session(
    key: str, channel: Source, session: Any, method: str, metadata: list[tuple[str, Value]]
) -> list[tuple[str, Value]]:
    """Return the metadata with that of the session, if there is one. The values stay in this program."""
    if not session:
        return metadata
    for each in tuple(channel.admin_view().sessions):
        if session == f"{key}/{each.number}":
            # A copy: the question must not change the session's cookies, not even remove expired ones.
            return list(each.metadata.copy().fill(Metadata(metadata), method))
    raise BadQuestion(f"there is no session {session!r} any more; ask without a session, or about one that is open")


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(each, str) for each in pair)


def to_json(explanation: Explanation) -> dict[str, Any]:
    """Return lines for people, each with its subject in `about`; lines of policies have a path in the tree too."""
    outcome = explanation.outcome
    return {
        "method": explanation.method,
        "lines": list(_lines(explanation)),
        "outcome": "" if outcome is None else str(outcome),
        "host": explanation.host,
        "verdict": _verdict(explanation),
    }


def _verdict(explanation: Explanation) -> str:
    match explanation.outcome:
        case PickFailed() | PickDropped():
            return "fails"
        case PickQueued():
            return "waits"
    return "goes" if explanation.host else "unknown"


def _split(line: str) -> dict[str, str]:
    """Split a line into its subject and the rest: the subject of `cluster blue: ...` is the cluster."""
    about, _, text = line.partition(" ")
    return {"about": about.rstrip(":"), "text": text}


def _lines(explanation: Explanation) -> Iterator[dict[str, str]]:
    if explanation.virtual_host:
        yield {"about": "virtual host", "text": explanation.virtual_host}
    for passed in explanation.passed[:_SHOWN]:
        yield {"about": "passed", "text": str(passed)}
    if len(explanation.passed) > _SHOWN:
        yield {"about": "passed", "text": f"{len(explanation.passed) - _SHOWN} more routes do not match"}
    if explanation.chosen is not None:
        yield from map(_split, explanation.chosen.lines())
    for fault in explanation.faults:
        yield {"about": "fault", "text": str(fault)}
    for session in explanation.sessions:
        yield {"about": "session", "text": str(session)}
    for step in explanation.steps:
        text = f"sees {step.saw}; chooses {step.chose}: {step.why}"
        yield {"about": "policy", "policy": short_policy_name(step.policy), "path": step.path, "text": text}
