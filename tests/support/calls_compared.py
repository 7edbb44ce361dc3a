"""Calls of a script that two clients make, and where they do not make the same of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .scripted_server import ScriptedServer
from .two_clients import Order, Outcome, outcomes

WARM = "/warm/Up"
"""The path of a call that waits for the configuration, and is not compared."""

# They say who the client is, which encodings it knows, and how much time is left.
_OWN = {
    *(b"user-agent", b"x-script", b"grpc-accept-encoding", b"accept-encoding", b"grpc-timeout"),
    *(b":authority", b"grpc-encoding", b"content-length"),
}


@dataclass(frozen=True)
class Seen:
    """The outcome of a call, and the headers and the body of each attempt of it that the server saw."""

    outcome: Outcome
    attempts: list[tuple[list[tuple[bytes, bytes]], bytes]]


@dataclass(frozen=True)
class Difference:
    ours: Seen
    peer: Seen
    call: dict[str, Any]
    script: Any
    config: Any


Read = Callable[[Seen, Any], Any]


async def differences(
    server: ScriptedServer,
    orders: Sequence[Order],
    read: Read | None = None,
    bootstrap: Any = None,
    peer: str = "grpcio",
    **how: Any,
) -> list[Difference]:
    """The calls of which `read` makes something else for ours than for the peer's; without it all must be equal."""
    if bootstrap is not None:
        how["GRPC_XDS_BOOTSTRAP_CONFIG"] = json.dumps(bootstrap)
    theirs, ours = await outcomes(peer, orders, **how), await outcomes("ours", orders, **how)
    found, attempts = [], 0
    for order, our_calls, their_calls in zip(orders, ours, theirs, strict=True):
        for call, our, their in zip(order.calls, our_calls, their_calls, strict=True):
            name = dict(call["metadata"])["x-script"]
            script = server.scripts[name]
            one, other = _seen(server, f"ours:{name}", our), _seen(server, f"{peer}:{name}", their)
            attempts += len(one.attempts)
            make = read or _comparable
            if call["path"] != WARM and make(one, script) != make(other, script):
                found.append(Difference(one, other, call, script, order.service_config))
    assert attempts, "two clients that reach no server would agree"
    return found


def _seen(server: ScriptedServer, name: str, outcome: Outcome) -> Seen:
    attempts = server.seen[name]
    return Seen(
        outcome,
        [(sorted(pair for pair in each.headers if pair[0] not in _OWN), bytes(each.body)) for each in attempts],
    )


def _comparable(seen: Seen, script: Any) -> Any:
    """What must be equal: a message only if the server sent it, and a request only if it first waited for its end."""
    actions = [script[min(index, len(script) - 1)] for index in range(len(seen.attempts))]
    attempts = [
        (headers, body if each[:1] == [("request",)] else None)
        for (headers, body), each in zip(seen.attempts, actions, strict=True)
    ]
    outcome = seen.outcome
    ends = [what[0] for each in actions[-1:] for kind, *what in each if kind == "end"]
    has_message = outcome.code != "OK" and any(key == b"grpc-message" for fields in ends for key, _ in fields)
    trailing = [pair for pair in outcome.trailing if pair[0] != "grpc-retry-pushback-ms"]  # grpcio has a number there
    message = outcome.message if has_message else None
    if message and message.startswith("max retries exhausted: "):  # which grpc-go adds
        message = message.partition(" desc = ")[2]
    return outcome.code, message, by_key(outcome.initial), by_key(trailing), outcome.replies, attempts


def by_key(pairs: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Metadata as grpc-go has it, where only the values of one key have an order."""
    return sorted(pairs, key=lambda pair: pair[0])
