"""Random hedging (A6), in which grpc-js and our client must do the same: grpcio and grpc-go have none yet.

TRXDS_SEEDS=100-109 draws others than usual. Not drawn is `grpc-retry-pushback-ms`, of which grpc-js makes something
else: it begins the next hedge after `hedgingDelay` all the same, and ends the call while other attempts are under way.
"""

import os
import random
import shutil
from pathlib import Path

import pytest
from support import random_scripts
from support.calls_compared import WARM, differences
from support.scripted_server import ScriptedServer
from support.two_clients import Order

NODE_MODULES = Path(__file__).parents[2] / ".peers" / "node" / "node_modules"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("node") is None or not NODE_MODULES.exists(), reason="needs grpc-js: make peers"),
]

FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0").partition("-")
each_seed = pytest.mark.parametrize("seed", range(int(FIRST), int(LAST or FIRST) + 1))
DELAY = 0.6


@each_seed
async def test_both_hedge_alike(seed):
    draw, server = random.Random(seed), ScriptedServer()
    async with server.serve() as address:
        orders = []
        for number in range(40):
            policy = hedging_policy(draw)
            config = {"methodConfig": [{"name": [{}], "hedgingPolicy": policy}]}
            server.scripts[str(number)] = attempts(draw, is_delayed="hedgingDelay" in policy)
            calls = [{"path": path, "metadata": [("x-script", str(number))]} for path in (WARM, "/a/b")]
            server.scripts[f"warm {number}"] = [random_scripts.REPLY_AND_OK]
            calls[0]["metadata"] = [("x-script", f"warm {number}")]
            orders.append(Order(f"ipv4:{address}", calls, config))
        for _ in range(3):  # only what is always so counts: the machine may be busy
            server.seen.clear()
            found = await differences(server, orders, seen, peer="grpc-js", NODE_PATH=str(NODE_MODULES))
            orders = [order for order in orders if any(each.call in order.calls for each in found)]
            if not found:
                return
    assert found == []


def hedging_policy(draw):
    codes = ["UNAVAILABLE", "INTERNAL", "ABORTED"]
    policy = {"maxAttempts": draw.choice([2, 3, 4, 5, 7])}
    if draw.random() < 0.8:
        policy["hedgingDelay"] = f"{DELAY}s"
    if draw.random() < 0.8:
        policy["nonFatalStatusCodes"] = draw.sample(codes, draw.randint(1, 3))
    return policy


def attempts(draw, *, is_delayed):
    """Attempts of which no two events are at the same time; without a delay none ends before the others have left."""
    pauses = [DELAY / 2**each for each in range(1, 6)]  # at most five attempts are made
    draw.shuffle(pauses)
    if is_delayed:
        pauses = [draw.choice([0, each, each + DELAY]) for each in pauses]
    return [attempt(draw, pause) for pause in pauses]


def attempt(draw, pause):
    if draw.random() < 0.35:
        actions = random_scripts.REPLY_AND_OK[1:]
    else:
        code = draw.choice([b"14", b"13", b"10", b"5", b"1"])
        actions = [("end", [*random_scripts.RESPONSE, (b"grpc-status", code), (b"grpc-message", b"as told")])]
    return [("request",), ("sleep", pause), *actions]


def seen(call, script):
    """The outcome, and how many attempts there were, each with the number of those before."""
    before = sorted(dict(headers).get(b"grpc-previous-rpc-attempts", b"") for headers, _ in call.attempts)
    return call.outcome.code, call.outcome.message, call.outcome.replies, before
