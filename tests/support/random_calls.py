"""Random answers of a server to calls of a peer's client and of ours, and where these make something else of them.

The peer is "grpcio", "grpc-go" or "grpc-java", and `random_scripts.py` says what is not drawn for each.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from trxds.testing import ManagementServer
from trxds.testing import resources as xds
from trxds.transport.grpc_timeout import decode_timeout

from . import random_scripts
from .calls_compared import WARM, Difference, Seen, by_key, differences
from .scripted_server import ScriptedServer
from .two_clients import Order, outcomes

# A connection that the script ends is followed by another one soon.
RECONNECTS = {"grpc.initial_reconnect_backoff_ms": 100}
_ENCODINGS = {
    "grpcio": (b"gzip", b"deflate"),
    "grpc-go": (b"gzip",),
    "grpc-java": (b"gzip",),
}  # these have no other one


def draw_calls(
    draw: Random, server: ScriptedServer, number: int, peer: str, count: int = 1, *, is_throttled: bool = False
) -> list[dict[str, Any]]:
    """Calls with scripts of their own."""
    calls = []
    for each in range(count):
        name = f"{number}-{each}"
        calls.append(call := random_scripts.call(draw, name))
        one_reply = call["kind"] in ("unary", "client_stream")
        script = [random_scripts.attempt(draw, one_reply=one_reply, is_throttled=is_throttled) for _ in range(6)]
        if peer == "grpc-go":
            script = random_scripts.for_grpc_go(script, is_throttled=is_throttled)
        elif peer == "grpc-java":
            script = random_scripts.for_grpc_java(script, is_throttled=is_throttled)
        server.scripts[name] = script
    return calls


async def retries(seed: int, peer: str) -> list[Difference]:
    draw, server = Random(seed), ScriptedServer()
    async with server.serve() as address:
        orders = []
        for number in range(400):
            config: dict[str, Any] = {}
            if draw.random() < 0.8:
                config["methodConfig"] = [{"name": [{}], "retryPolicy": random_scripts.retry_policy(draw)}]
            orders.append(Order(f"ipv4:{address}", draw_calls(draw, server, number, peer), config, RECONNECTS))
        return await differences(server, orders, peer=peer)


async def retries_of_routes(seed: int, peer: str) -> list[Difference]:
    draw, server, plane = Random(seed), ScriptedServer(), ManagementServer()
    most = 4 if peer == "grpc-go" else 7  # it has no limit for a route's attempts, and the others have 5
    async with server.serve() as address, plane.serve() as ads:
        plane.put(xds.cluster("c"), xds.endpoints("c", xds.locality(address)))
        orders = []
        for number in range(200):
            route = xds.route("c")
            route["route"]["retry_policy"] = random_scripts.route_retry_policy(draw, most)
            routes = xds.routes(f"r-{number}", route)
            if draw.random() < 0.3 and peer != "grpc-java":  # it does not read those of virtual hosts
                routes["virtual_hosts"][0]["retry_policy"] = random_scripts.route_retry_policy(draw, most)
                if draw.random() < 0.7:
                    del route["route"]["retry_policy"]
            plane.put(xds.listener(f"case-{number}", routes=f"r-{number}"), routes)
            orders.append(Order(f"xds:///case-{number}", draw_calls(draw, server, number, peer), None, RECONNECTS))
        return await differences(server, orders, bootstrap=xds.bootstrap(ads), peer=peer)


async def throttling(seed: int, peer: str) -> list[Difference]:
    draw, server = Random(seed), ScriptedServer()
    async with server.serve_on_ports(60) as addresses:  # grpcio has one throttle for all channels to a name
        orders = []
        for number, address in enumerate(addresses):
            # A whole number would be a thousandth of itself for grpcio.
            ratio = draw.choice([0.1, 0.5, 1.0, 0.333])
            config = {
                "methodConfig": [{"name": [{}], "retryPolicy": random_scripts.retry_policy(draw)}],
                "retryThrottling": {"maxTokens": draw.choice([1, 2, 3, 5, 10]), "tokenRatio": ratio},
            }
            calls = draw_calls(draw, server, number, peer, 12, is_throttled=True)
            orders.append(Order(f"ipv4:{address}", calls, config))
        return await differences(server, orders, peer=peer)


async def messages(seed: int, peer: str) -> list[Difference]:
    draw, server = Random(seed), ScriptedServer()
    async with server.serve() as address:
        orders = []
        for number in range(400):
            call = random_scripts.call_of_messages(draw, str(number))
            one_reply = call["kind"] in ("unary", "client_stream")
            most, most_sent = draw.choice([None, None, 100, 0, 1_000]), draw.choice([None, None, None, 100, 0])
            encodings = _ENCODINGS[peer]
            if peer == "grpc-java":  # where a call may never end, or ends CANCELLED
                most_sent, encodings = None, encodings if most is None else ()
            if peer == "grpc-go" and most_sent is not None:
                call["compression"] = 0  # its limit is for what it sends, and ours for the message
            # Which of two failures a client sees first, the server's end or its own, would be chance.
            early = most is most_sent is None and draw.random() < 0.5
            if early and peer == "grpcio":  # which then may return a compressed reply as it came
                encodings = ()
            server.scripts[str(number)] = [
                random_scripts.messages(draw, one_reply=one_reply, early=early, encodings=encodings)
            ]
            options = {"grpc.max_receive_message_length": most, "grpc.max_send_message_length": most_sent}
            ours = {"max_receive_size": most, "max_send_size": most_sent}
            limits = [{key: value for key, value in each.items() if value is not None} for each in (options, ours)]
            orders.append(Order(f"ipv4:{address}", [call], None, *limits))
        return await differences(server, orders, messages_seen, peer=peer)


def messages_seen(seen: Seen, script: Any) -> Any:
    """The messages that both sides got; what a refused call has sent by then is each client's affair."""
    is_whole = ("request",) in script[0] and seen.outcome.code != "RESOURCE_EXHAUSTED"
    requests = [random_scripts.read_messages(body) for _, body in seen.attempts] if is_whole else None
    return seen.outcome.code, seen.outcome.replies, requests


async def metadata(seed: int, peer: str) -> list[Difference]:
    draw, server = Random(seed), ScriptedServer()
    async with server.serve() as address:
        orders = []
        for number in range(100):
            calls = []
            for each in range(5):
                name = f"{number}-{each}"
                sent = random_scripts.sent_metadata(draw)
                if peer == "grpc-go":  # which leaves out what looks like a pseudo-header
                    sent = [pair for pair in sent if not pair[0].startswith(":")]
                if peer == "grpc-java":  # which leaves out what has such characters
                    sent = [pair for pair in sent if pair[1].isascii() and pair[1].isprintable()]
                calls.append({"path": "/a/b", "metadata": [("x-script", name), *sent]})
                server.scripts[name] = [random_scripts.answer_with_metadata(draw)]
            orders.append(Order(f"ipv4:{address}", calls))
        return await differences(server, orders, metadata_seen, peer=peer)


_REFUSALS = ("Invalid metadata", "header key ", "there is an empty key")  # of grpcio, and of grpc-go


def metadata_seen(seen: Seen, script: Any) -> Any:
    """Whether the client took the metadata, or refused it by an exception or a status of its own."""
    outcome = seen.outcome
    if outcome.code == "REFUSED" or outcome.message.startswith(_REFUSALS):
        return "refused"
    # grpcio sends blanks around a value, which HTTP/2 forbids; python-h2 joins several cookies.
    headers = [
        sorted((key, b"; ".join(map(bytes.strip, value.split(b"; ")))) for key, value in headers)
        for headers, _ in seen.attempts
    ]
    return outcome.code, by_key(outcome.initial), by_key(outcome.trailing), headers


async def times(seed: int, peer: str) -> list[tuple[Any, Any]]:
    draw, server = Random(seed), ScriptedServer()
    policy = {**random_scripts.retry_policy(draw), "maxAttempts": 5, "retryableStatusCodes": ["UNAVAILABLE"]}
    config = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
    async with server.serve() as address:
        calls = []
        for number in range(60):
            failures = [random_scripts.UNAVAILABLE] * draw.choice([0, 0, 1, 3])
            server.scripts[str(number)] = [*failures, random_scripts.REPLY_AND_OK]
            # Above 27,000 hours grpcio says 27,000; below a second the machine's pace would count.
            timeout = draw.choice([None, 2, 3.5, 60, 99.999, 3_600, 100_000, 1e7, 5e7])
            calls.append({"path": "/a/b", "metadata": [("x-script", str(number))], "timeout": timeout})
        server.scripts["warm"] = [random_scripts.REPLY_AND_OK]
        warm = {"path": WARM, "metadata": [("x-script", "warm")], "timeout": random_scripts.PATIENCE}
        order = Order(f"ipv4:{address}", [warm, *calls], config)
        for client in (peer, "ours"):
            await outcomes(client, [order])
    said = [(times_left(server, "ours", call), times_left(server, peer, call)) for call in calls]
    # grpcio counts in units of which it has two or three digits, and rounds up.
    return [
        (ours, theirs) for ours, theirs in said if theirs != [pytest.approx(each, rel=0.02, abs=0.7) for each in ours]
    ]


def times_left(server: ScriptedServer, client: str, call: dict[str, Any]) -> list[float]:
    """What `grpc-timeout` said in each attempt, in seconds; -1 without one."""
    texts = [
        dict(each.headers).get(b"grpc-timeout")
        for each in server.seen[f"{client}:{dict(call['metadata'])['x-script']}"]
    ]
    return [-1 if text is None else decode_timeout(text) for text in texts]
