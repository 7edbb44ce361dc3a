"""Calls that grpcio's client and ours make in the same way, and what comes of them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import trio

from . import go_peers, java_peers

_PEERS = Path(__file__).parents[1] / "peers"


def _command(client: str) -> list[str]:
    match client:
        case "grpc-go":
            return [str(go_peers.program("client"))]
        case "grpc-java":
            return java_peers.command("Client")
        case "grpc-js":
            return ["node", str(_PEERS / "node" / "outcomes.js")]
    return [sys.executable, str(_PEERS / {"grpcio": "grpcio_outcomes.py", "ours": "trxds_outcomes.py"}[client])]


@dataclass
class Order:
    """A channel, and the calls that are made on it one after the other.

    A call is a dict: `path`, and if it needs them `kind`, `messages`, `metadata`, `timeout`, `wait_for_ready`,
    `compression` (a number of grpc.Compression). `at` is its earliest time in seconds after the end of the first call,
    and `at_once` a number of such calls that are made together, of which the outcome has all codes. Messages and values
    of -bin keys are base64.
    """

    target: str
    calls: list[dict[str, Any]]
    service_config: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)  # of grpcio's channel
    ours: dict[str, Any] = field(default_factory=dict)  # of our `open_channel`
    linger: float = 0.0
    """Seconds after the last call until the channel is closed."""

    def by(self, client: str) -> Order:
        """The same with names of scripts that say which client calls."""
        return replace(self, calls=[{**call, "metadata": _named(call["metadata"], client)} for call in self.calls])


def _named(metadata: Sequence[tuple[str, str]], client: str) -> list[tuple[str, str]]:
    return [(key, f"{client}:{value}" if key == "x-script" else value) for key, value in metadata]


@dataclass(frozen=True)
class Outcome:
    """What came of a call. `refused` calls, whose metadata the client did not take, have that code."""

    code: str
    message: str
    initial: list[list[str]] = field(default_factory=list)
    trailing: list[list[str]] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)
    seconds: float = 0.0


async def outcomes(
    client: str, orders: Sequence[Order], *, at_once: int = 8, **environment: str
) -> list[list[Outcome]]:
    """The outcomes of a client's calls, by channel, in a process of its own with so many channels at the same time."""
    done = await trio.run_process(
        [*_command(client), str(at_once)],
        stdin=json.dumps([asdict(order.by(client)) for order in orders]).encode(),
        capture_stdout=True,
        env={"GRPC_VERBOSITY": "NONE", **os.environ, **environment},
    )
    return [[Outcome(**each) for each in calls] for calls in json.loads(done.stdout)]
