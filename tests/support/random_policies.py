"""Random faults, drops, limits, outliers and weights for a peer's client and ours, and what each makes of them.

The peer is "grpcio" or "grpc-java".
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from random import Random
from typing import Any

from trxds.testing import ManagementServer
from trxds.testing import resources as xds

from . import java_peers, random_faults, random_loads, random_outliers, random_scripts, random_weights
from .calls_compared import WARM, Difference, Seen, by_key, differences
from .scripted_server import ScriptedServer
from .two_clients import Order, Outcome, outcomes

PUSHBACK = "grpc-retry-pushback-ms"
# A85, off in grpcio 1.85 and grpc-java 1.85
METRICS = {"GRPC_EXPERIMENTAL_XDS_ORCA_LRS_PROPAGATION": "true"}


async def _both(
    peer: str, orders: list[Order], ads: str, *, at_once: int = 8, **environ: str
) -> dict[str, list[list[Outcome]]]:
    environ |= {"GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(xds.bootstrap(ads)), **java_peers.AS_WE_DO}
    return {client: await outcomes(client, orders, at_once=at_once, **environ) for client in (peer, "ours")}


async def faults(seed: int, peer: str) -> list[Difference]:
    draw, server, plane = Random(seed), ScriptedServer(), ManagementServer()
    async with server.serve() as address, plane.serve() as ads:
        plane.put(xds.cluster("c"), xds.endpoints("c", xds.locality(address)))
        orders = []
        for number in range(60):
            plane.put(*random_faults.mesh(draw, number, "c"))
            names = [f"{number}-{each}" for each in range(5)]
            server.scripts.update({name: [random_scripts.REPLY_AND_OK] for name in names})
            calls = [{"path": "/a/b", "metadata": [("x-script", name), *random_faults.headers(draw)]} for name in names]
            calls[0] = {"path": WARM, "metadata": [("x-script", names[0])]}
            orders.append(Order(f"xds:///case-{number}", calls))
        return await differences(server, orders, _faults_seen, xds.bootstrap(ads), peer)


def _faults_seen(seen: Seen, script: Any) -> Any:
    is_delayed = seen.outcome.seconds > random_faults.DELAY * 0.95
    return seen.outcome.code, seen.outcome.message, is_delayed, len(seen.attempts)


Codes = tuple[list[Any], list[Any]]
"""The codes of calls that ours and the peer's made together."""


async def limited_faults(seed: int, peer: str) -> Codes:
    draw, server, plane = Random(seed), ScriptedServer(), ManagementServer()
    async with server.serve() as address, plane.serve() as ads:
        plane.put(xds.cluster("c"), xds.endpoints("c", xds.locality(address)))
        server.scripts["all"] = [random_scripts.REPLY_AND_OK]
        orders = []
        for number in range(4):
            plane.put(*random_faults.limited_mesh(draw, number, "c"))
            one = {"path": "/a/b", "metadata": [("x-script", "all")], "timeout": random_faults.SHORT_DELAY / 2}
            calls = [one | {"at_once": draw.randint(1, 6)} for _ in range(2)]
            orders.append(Order(f"xds:///case-{number}", [{"path": WARM, "metadata": [("x-script", "all")]}, *calls]))
        done = await _both(peer, orders, ads, at_once=1)  # grpcio counts in its process
    return _codes(done["ours"]), _codes(done[peer])


def _codes(done: list[list[Outcome]]) -> list[str]:
    """The codes of all calls but the first ones of the channels."""
    return [each.code for calls in done for each in calls[1:]]


async def circuit_breakers(seed: int, peer: str) -> Codes:
    """Draw limits of clusters that two channels share."""
    draw, server, plane = Random(seed), ScriptedServer(), ManagementServer()
    reply = [("headers", random_scripts.RESPONSE), ("data", random_scripts.REPLY), ("end", [(b"grpc-status", b"0")])]
    async with server.serve() as address, plane.serve() as ads:
        orders = []
        for number in range(8):
            name = f"c-{number // 2}"
            limits = {"circuit_breakers": {"thresholds": [{"max_requests": draw.randint(1, 5)}]}}
            routes = xds.listener(f"case-{number}", routes=f"r-{number}"), xds.routes(f"r-{number}", xds.route(name))
            if number % 2 == 0:
                # Without load reports grpc-java counts no calls.
                plane.put(xds.cluster(name) | limits | xds.load_reports(), xds.endpoints(name, xds.locality(address)))
            plane.put(*routes)
            server.scripts[str(number)] = [[("request",), ("sleep", 5), *reply]]
            server.scripts["warm"] = [random_scripts.REPLY_AND_OK]
            call = {"path": "/a/b", "metadata": [("x-script", str(number))], "timeout": 60}
            one = call | {"at_once": draw.randint(1, 4)}
            warm = {"path": WARM, "metadata": [("x-script", "warm")], "wait_for_ready": True, "timeout": 60}
            orders.append(Order(f"xds:///case-{number}", [warm, one | {"at": 0.5 + 2 * (number % 2)}]))
        done = await _both(peer, orders, ads, at_once=len(orders), ONE_XDS_CLIENT="1")
    return _codes(done["ours"]), _codes(done[peer])


async def loads(seed: int, peer: str) -> tuple[Any, Any]:
    """What came of the calls of each client, and what it reported."""
    draw, server, plane = Random(seed), ScriptedServer(), ManagementServer()
    async with server.serve() as address, plane.serve() as ads:
        orders = []
        for number in range(16):
            mesh = random_loads.mesh(draw, number, address)
            if peer == "grpc-java":  # which does not know the metric without a name
                for each in mesh:
                    names = each.get("lrs_report_endpoint_metrics", [])
                    names[:] = [name for name in names if name != "named_metrics."]
            plane.put(*mesh)
            calls, scripts = random_loads.calls(draw, number, 10)
            for name, script in scripts.items():
                is_java = peer == "grpc-java"
                server.scripts[name] = random_scripts.for_grpc_java(script, is_throttled=True) if is_java else script
            orders.append(Order(f"xds:///case-{number}", calls, linger=2.5))
        found = []
        for client in ("ours", peer):
            before = len(plane.load.requests)
            how = {"GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(xds.bootstrap(ads)), **METRICS}
            done = await outcomes(client, orders, **how)
            ends = [[_end(each, peer) for each in calls] for calls in done]
            found.append((ends, random_loads.summed(plane.load.requests[before:])))
    return found[0], found[1]


def _end(outcome: Outcome, peer: str) -> Any:
    # Of a stream that the server resets each client says it in its own words, and so does grpc-java of a drop. grpcio
    # shows no load report, and a number for a pushback.
    message = outcome.message if peer == "grpcio" and "drop" in outcome.message else None
    trailing = [pair for pair in outcome.trailing if pair[0] not in ("endpoint-load-metrics-bin", PUSHBACK)]
    return outcome.code, message, by_key(trailing), outcome.replies


async def outliers(seed: int, peer: str) -> tuple[int, list[Any]]:
    """How many cases a busy machine did not spoil; and rules with which the clients eject other hosts."""
    draw, plane = Random(seed), ManagementServer()
    hosts = [ScriptedServer() for _ in range(random_outliers.HOSTS)]
    async with plane.serve() as ads, AsyncExitStack() as servers:
        addresses = [await servers.enter_async_context(host.serve()) for host in hosts]
        cases = [random_outliers.Case(draw, number, hosts) for number in range(10)]
        for case in cases:
            plane.put(*case.mesh(addresses))
        orders = [Order(f"xds:///case-{case.number}", case.calls()) for case in cases]
        done = await _both(peer, orders, ads, at_once=len(cases))
    in_time = [
        case
        for number, case in enumerate(cases)
        if all(case.was_in_time(client, done[client][number]) for client in done)
    ]
    return len(in_time), [
        (case.rules, case.ejected("ours"), case.ejected(peer))
        for case in in_time
        if case.ejected("ours") != case.ejected(peer)
    ]


Shares = tuple[list[int], list[int]]
"""How many calls each host got from ours and from the peer's."""


def unlike(shares: list[Shares]) -> list[Shares]:
    """The shares that differ by more than chance: which host begins is a draw, and each new schedule begins anew."""
    return [each for each in shares if max(abs(ours - theirs) for ours, theirs in zip(*each, strict=True)) > 12]


async def weights(seed: int, peer: str, *, is_out_of_band: bool = False) -> list[Shares]:
    draw, plane = Random(seed), ManagementServer()
    hosts = [ScriptedServer() for _ in range(random_weights.HOSTS)]
    for host in hosts if is_out_of_band else ():
        random_weights.report_out_of_band(draw, host)
    async with plane.serve() as ads, AsyncExitStack() as servers:
        addresses = [await servers.enter_async_context(host.serve()) for host in hosts]
        make = random_weights.OutOfBandCase if is_out_of_band else random_weights.Case
        cases = [make(draw, number, hosts) for number in range(8)]
        for case in cases:
            plane.put(*case.mesh(addresses))
        orders = [Order(f"xds:///case-{case.number}", case.calls()) for case in cases]
        await _both(peer, orders, ads, at_once=len(cases))
    return [(case.shares("ours"), case.shares(peer)) for case in cases]
