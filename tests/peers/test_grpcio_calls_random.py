"""Random answers of a server to calls of grpcio's client and of ours, which must make the same of them.

TRXDS_SEEDS=100-109 draws others than usual. A difference has what both saw, and the server's script.
"""

import os
import random

import pytest
from support import random_scripts
from support.calls_compared import differences
from support.scripted_server import ScriptedServer
from support.two_clients import Order, outcomes

from trxds.testing import ManagementServer
from trxds.testing import resources as xds
from trxds.transport.grpc_timeout import decode_timeout

pytestmark = pytest.mark.long

FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0-1").partition("-")
each_seed = pytest.mark.parametrize("seed", range(int(FIRST), int(LAST or FIRST) + 1))
# A connection that the script ends is followed by another one soon.
RECONNECTS = {"grpc.initial_reconnect_backoff_ms": 100}


def draw_calls(draw, server, number, count=1, **how):
    """Calls with scripts of their own."""
    calls = []
    for each in range(count):
        name = f"{number}-{each}"
        calls.append(call := random_scripts.call(draw, name))
        one_reply = call["kind"] in ("unary", "client_stream")
        server.scripts[name] = [random_scripts.attempt(draw, one_reply=one_reply, **how) for _ in range(6)]
    return calls


@each_seed
async def test_both_make_the_same_of_what_a_server_answers_under_a_retry_policy(seed):
    draw, server = random.Random(seed), ScriptedServer()
    async with server.serve() as address:
        orders = []
        for number in range(400):
            config = {}
            if draw.random() < 0.8:
                config["methodConfig"] = [{"name": [{}], "retryPolicy": random_scripts.retry_policy(draw)}]
            orders.append(Order(f"ipv4:{address}", draw_calls(draw, server, number), config, RECONNECTS))
        found = await differences(server, orders)
    assert found == []


@each_seed
async def test_both_retry_alike_by_the_policies_of_routes(seed):
    draw, server, plane = random.Random(seed), ScriptedServer(), ManagementServer()
    async with server.serve() as address, plane.serve() as ads:
        plane.put(xds.cluster("c"), xds.endpoints("c", xds.locality(address)))
        orders = []
        for number in range(200):
            route = xds.route("c")
            route["route"]["retry_policy"] = random_scripts.route_retry_policy(draw)
            routes = xds.routes(f"r-{number}", route)
            if draw.random() < 0.3:
                routes["virtual_hosts"][0]["retry_policy"] = random_scripts.route_retry_policy(draw)
                if draw.random() < 0.7:
                    del route["route"]["retry_policy"]
            plane.put(xds.listener(f"case-{number}", routes=f"r-{number}"), routes)
            orders.append(Order(f"xds:///case-{number}", draw_calls(draw, server, number), None, RECONNECTS))
        found = await differences(server, orders, bootstrap=xds.bootstrap(ads))
    assert found == []


@each_seed
async def test_both_throttle_the_same_retries(seed):
    draw, server = random.Random(seed), ScriptedServer()
    async with server.serve_on_ports(60) as addresses:  # grpcio has one throttle for all channels to a name
        orders = []
        for number, address in enumerate(addresses):
            # A whole number would be a thousandth of itself for grpcio.
            ratio = draw.choice([0.1, 0.5, 1.0, 0.333])
            config = {
                "methodConfig": [{"name": [{}], "retryPolicy": random_scripts.retry_policy(draw)}],
                "retryThrottling": {"maxTokens": draw.choice([1, 2, 3, 5, 10]), "tokenRatio": ratio},
            }
            calls = draw_calls(draw, server, number, 12, is_throttled=True)
            orders.append(Order(f"ipv4:{address}", calls, config))
        found = await differences(server, orders)
    assert found == []


@each_seed
async def test_both_read_and_send_the_same_messages_and_refuse_the_same_ones(seed):
    draw, server = random.Random(seed), ScriptedServer()
    async with server.serve() as address:
        orders = []
        for number in range(400):
            call = random_scripts.call_of_messages(draw, str(number))
            one_reply = call["kind"] in ("unary", "client_stream")
            most, most_sent = draw.choice([None, None, 100, 0, 1_000]), draw.choice([None, None, None, 100, 0])
            # Which of two failures a client sees first, the server's end or its own, would be chance.
            early = most is most_sent is None and draw.random() < 0.5
            server.scripts[str(number)] = [random_scripts.messages(draw, one_reply=one_reply, early=early)]
            options = {"grpc.max_receive_message_length": most, "grpc.max_send_message_length": most_sent}
            ours = {"max_receive_size": most, "max_send_size": most_sent}
            limits = [{key: value for key, value in each.items() if value is not None} for each in (options, ours)]
            orders.append(Order(f"ipv4:{address}", [call], None, *limits))
        found = await differences(server, orders, messages_seen)
    assert found == []


def messages_seen(seen, script):
    """The messages that both sides got; what a refused call has sent by then is each client's affair."""
    is_whole = ("request",) in script[0] and seen.outcome.code != "RESOURCE_EXHAUSTED"
    requests = [random_scripts.read_messages(body) for _, body in seen.attempts] if is_whole else None
    return seen.outcome.code, seen.outcome.replies, requests


@each_seed
async def test_both_send_and_show_the_same_metadata(seed):
    draw, server = random.Random(seed), ScriptedServer()
    async with server.serve() as address:
        orders = []
        for number in range(100):
            calls = []
            for each in range(5):
                name = f"{number}-{each}"
                sent = random_scripts.sent_metadata(draw)
                calls.append({"path": "/a/b", "metadata": [("x-script", name), *sent]})
                server.scripts[name] = [random_scripts.answer_with_metadata(draw)]
            orders.append(Order(f"ipv4:{address}", calls))
        found = await differences(server, orders, metadata_seen)
    assert found == []


def metadata_seen(seen, script):
    """Whether the client took the metadata, or refused it by an exception or a status of its own."""
    outcome = seen.outcome
    if outcome.code == "REFUSED" or outcome.message == "Invalid metadata":
        return "refused"
    # grpcio sends blanks around a value, which HTTP/2 forbids; python-h2 joins several cookies.
    headers = [
        sorted((key, b"; ".join(map(bytes.strip, value.split(b"; ")))) for key, value in headers)
        for headers, _ in seen.attempts
    ]
    return outcome.code, outcome.initial, outcome.trailing, headers


@each_seed
async def test_both_tell_the_server_how_much_of_the_callers_time_is_left(seed):
    draw, server = random.Random(seed), ScriptedServer()
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
        order = Order(f"ipv4:{address}", calls, config)
        for client in ("grpcio", "ours"):
            await outcomes(client, [order])
    ours, theirs = ([times_left(server, client, call) for call in calls] for client in ("ours", "grpcio"))
    # grpcio counts in units of which it has two or three digits, and rounds up.
    assert [[pytest.approx(each, rel=0.02, abs=0.7) for each in times] for times in ours] == theirs


def times_left(server, client, call):
    """What `grpc-timeout` said in each attempt, in seconds; -1 without one."""
    texts = [
        dict(each.headers).get(b"grpc-timeout")
        for each in server.seen[f"{client}:{dict(call['metadata'])['x-script']}"]
    ]
    return [-1 if text is None else decode_timeout(text) for text in texts]
