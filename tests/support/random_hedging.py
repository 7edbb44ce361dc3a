"""Random hedging (A6), in which a peer's client and ours must do the same: grpcio and grpc-go have none yet.

Not drawn is `grpc-retry-pushback-ms`, of which grpc-js makes something else: it begins the next hedge after
`hedgingDelay` all the same, and ends the call while other attempts are under way.
"""

from __future__ import annotations

from random import Random
from typing import Any

from . import random_scripts
from .calls_compared import WARM, Difference, Seen, differences
from .scripted_server import Action, ScriptedServer
from .two_clients import Order

DELAY = 0.6


async def hedging(seed: int, peer: str, **environ: str) -> list[Difference]:
    """The calls that both hedge differently in each of three runs: the machine may be busy in one."""
    draw, server = Random(seed), ScriptedServer()
    found: list[Difference] = []
    async with server.serve() as address:
        orders = []
        for number in range(40):
            policy = _policy(draw)
            is_delayed = "hedgingDelay" in policy
            if peer == "grpc-java":
                policy.setdefault("hedgingDelay", "0s")  # which it needs
            config = {"methodConfig": [{"name": [{}], "hedgingPolicy": policy}]}
            server.scripts[str(number)] = _attempts(draw, is_delayed=is_delayed)
            server.scripts[f"warm {number}"] = [random_scripts.REPLY_AND_OK]
            calls = [
                {"path": WARM, "metadata": [("x-script", f"warm {number}")]},
                {"path": "/a/b", "metadata": [("x-script", str(number))]},
            ]
            orders.append(Order(f"ipv4:{address}", calls, config))
        for _ in range(3):
            server.seen.clear()
            found = await differences(server, orders, _seen, peer=peer, **environ)
            orders = [order for order in orders if any(each.call in order.calls for each in found)]
            if not found:
                break
    return found


def _policy(draw: Random) -> dict[str, Any]:
    codes = ["UNAVAILABLE", "INTERNAL", "ABORTED"]
    policy: dict[str, Any] = {"maxAttempts": draw.choice([2, 3, 4, 5, 7])}
    if draw.random() < 0.8:
        policy["hedgingDelay"] = f"{DELAY}s"
    if draw.random() < 0.8:
        policy["nonFatalStatusCodes"] = draw.sample(codes, draw.randint(1, 3))
    return policy


def _attempts(draw: Random, *, is_delayed: bool) -> list[list[Action]]:
    """Attempts of which no two events are at the same time; without a delay none ends before the others have left."""
    pauses: list[float] = [DELAY / 2**each for each in range(1, 6)]  # at most five attempts are made
    draw.shuffle(pauses)
    if is_delayed:
        pauses = [draw.choice([0, each, each + DELAY]) for each in pauses]
    return [_attempt(draw, pause) for pause in pauses]


def _attempt(draw: Random, pause: float) -> list[Action]:
    actions: list[Action]
    if draw.random() < 0.35:
        actions = random_scripts.REPLY_AND_OK[1:]
    else:
        code = draw.choice([b"14", b"13", b"10", b"5", b"1"])
        actions = [("end", [*random_scripts.RESPONSE, (b"grpc-status", code), (b"grpc-message", b"as told")])]
    return [("request",), ("sleep", pause), *actions]


def _seen(call: Seen, script: Any) -> Any:
    """The outcome, and how many attempts there were, each with the number of those before."""
    before = sorted(dict(headers).get(b"grpc-previous-rpc-attempts", b"") for headers, _ in call.attempts)
    return call.outcome.code, call.outcome.message, call.outcome.replies, before
