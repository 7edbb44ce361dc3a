"""Random faults, drops, limits and outliers, with which grpcio's client and ours must do the same, and report the same.

TRXDS_SEEDS=100-109 draws others than usual.
"""

import json
import os
import random
from contextlib import AsyncExitStack

import pytest
from support import random_faults, random_loads, random_outliers, random_scripts, random_weights
from support.calls_compared import WARM, differences
from support.scripted_server import ScriptedServer
from support.two_clients import Order, outcomes

from trxds.testing import ManagementServer
from trxds.testing import resources as xds

pytestmark = pytest.mark.long

FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0-1").partition("-")
each_seed = pytest.mark.parametrize("seed", range(int(FIRST), int(LAST or FIRST) + 1))
PUSHBACK = "grpc-retry-pushback-ms"
METRICS = {"GRPC_EXPERIMENTAL_XDS_ORCA_LRS_PROPAGATION": "true"}  # A85, off in grpcio 1.85


@each_seed
async def test_both_inject_the_same_faults(seed):
    draw, server, plane = random.Random(seed), ScriptedServer(), ManagementServer()
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
        found = await differences(server, orders, faults_seen, xds.bootstrap(ads))
    assert found == []


@each_seed
async def test_both_inject_no_more_faults_at_once_than_they_may(seed):
    draw, server, plane = random.Random(seed), ScriptedServer(), ManagementServer()
    async with server.serve() as address, plane.serve() as ads:
        plane.put(xds.cluster("c"), xds.endpoints("c", xds.locality(address)))
        server.scripts["all"] = [random_scripts.REPLY_AND_OK]
        orders = []
        for number in range(4):
            plane.put(*random_faults.limited_mesh(draw, number, "c"))
            one = {"path": "/a/b", "metadata": [("x-script", "all")], "timeout": random_faults.SHORT_DELAY / 2}
            calls = [one | {"at_once": draw.randint(1, 6)} for _ in range(2)]
            orders.append(Order(f"xds:///case-{number}", [{"path": WARM, "metadata": [("x-script", "all")]}, *calls]))
        how = {
            "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(xds.bootstrap(ads)),
            "at_once": 1,
        }  # grpcio counts in its process
        done = {client: await outcomes(client, orders, **how) for client in ("grpcio", "ours")}
    codes = {client: [each.code for calls in orders for each in calls[1:]] for client, orders in done.items()}
    assert codes["ours"] == codes["grpcio"]
    assert {"DEADLINE_EXCEEDED", "OK"} <= set(", ".join(codes["ours"]).split(", "))


@each_seed
async def test_both_count_the_calls_of_all_channels_for_the_limit_of_a_cluster(seed):
    draw, server, plane = random.Random(seed), ScriptedServer(), ManagementServer()
    reply = [("headers", random_scripts.RESPONSE), ("data", random_scripts.REPLY), ("end", [(b"grpc-status", b"0")])]
    async with server.serve() as address, plane.serve() as ads:
        orders = []
        for number in range(8):
            name = f"c-{number // 2}"  # of two channels
            limits = {"circuit_breakers": {"thresholds": [{"max_requests": draw.randint(1, 5)}]}}
            routes = xds.listener(f"case-{number}", routes=f"r-{number}"), xds.routes(f"r-{number}", xds.route(name))
            if number % 2 == 0:
                plane.put(xds.cluster(name) | limits, xds.endpoints(name, xds.locality(address)))
            plane.put(*routes)
            server.scripts[str(number)] = [[("request",), ("sleep", 1.2), *reply]]
            server.scripts["warm"] = [random_scripts.REPLY_AND_OK]
            one = {"path": "/a/b", "metadata": [("x-script", str(number))], "at_once": draw.randint(1, 4)}
            warm = {"path": WARM, "metadata": [("x-script", "warm")], "wait_for_ready": True}
            orders.append(Order(f"xds:///case-{number}", [warm, one | {"at": 0.5 + 0.5 * (number % 2)}]))
        how = {"GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(xds.bootstrap(ads)), "at_once": len(orders)}
        done = {client: await outcomes(client, orders, **how, ONE_XDS_CLIENT="1") for client in ("grpcio", "ours")}
    codes = {client: [calls[1].code for calls in orders] for client, orders in done.items()}
    assert codes["ours"] == codes["grpcio"]
    assert {"UNAVAILABLE", "OK"} <= set(", ".join(codes["ours"]).split(", "))


def faults_seen(seen, script):
    is_delayed = seen.outcome.seconds > random_faults.DELAY * 0.95
    return seen.outcome.code, seen.outcome.message, is_delayed, len(seen.attempts)


@each_seed
async def test_both_drop_the_same_calls_and_report_the_same_load(seed):
    draw, server, plane = random.Random(seed), ScriptedServer(), ManagementServer()
    async with server.serve() as address, plane.serve() as ads:
        orders = []
        for number in range(16):
            plane.put(*random_loads.mesh(draw, number, address))
            calls, scripts = random_loads.calls(draw, number, 10)
            server.scripts.update(scripts)
            orders.append(Order(f"xds:///case-{number}", calls, linger=2.5))
        how = {"GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(xds.bootstrap(ads)), **METRICS}
        theirs = await outcomes("grpcio", orders, **how)
        reported = len(plane.load.requests)
        ours = await outcomes("ours", orders, **how)
    assert [[end(each) for each in calls] for calls in ours] == [[end(each) for each in calls] for calls in theirs]
    reports = plane.load.requests
    assert random_loads.summed(reports[reported:]) == random_loads.summed(reports[:reported]) != {}


def end(outcome):
    # Of a stream that the server resets each client says it in its own words; grpcio shows no load report, and a number
    # for a pushback.
    message = outcome.message if "drop" in outcome.message else None
    trailing = [pair for pair in outcome.trailing if pair[0] not in ("endpoint-load-metrics-bin", PUSHBACK)]
    return outcome.code, message, trailing, outcome.replies


@each_seed
async def test_both_eject_the_same_hosts_and_take_them_back(seed):
    draw, plane = random.Random(seed), ManagementServer()
    hosts = [ScriptedServer() for _ in range(random_outliers.HOSTS)]
    async with plane.serve() as ads, AsyncExitStack() as servers:
        addresses = [await servers.enter_async_context(host.serve()) for host in hosts]
        cases = [random_outliers.Case(draw, number, hosts) for number in range(10)]
        for case in cases:
            plane.put(*case.mesh(addresses))
        orders = [Order(f"xds:///case-{case.number}", case.calls()) for case in cases]
        how = {"GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(xds.bootstrap(ads)), "at_once": len(cases)}
        done = {client: await outcomes(client, orders, **how) for client in ("grpcio", "ours")}
    in_time = [
        case
        for number, case in enumerate(cases)
        if all(case.was_in_time(client, done[client][number]) for client in done)
    ]
    different = [case.rules for case in in_time if case.ejected("ours") != case.ejected("grpcio")]
    assert (bool(in_time), different) == (True, [])


@each_seed
async def test_both_send_each_host_its_share_by_its_load_reports(seed):
    draw, plane = random.Random(seed), ManagementServer()
    hosts = [ScriptedServer() for _ in range(random_weights.HOSTS)]
    async with plane.serve() as ads, AsyncExitStack() as servers:
        addresses = [await servers.enter_async_context(host.serve()) for host in hosts]
        cases = [random_weights.Case(draw, number, hosts) for number in range(8)]
        for case in cases:
            plane.put(*case.mesh(addresses))
        orders = [Order(f"xds:///case-{case.number}", case.calls()) for case in cases]
        how = {"GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(xds.bootstrap(ads)), "at_once": len(cases)}
        for client in ("grpcio", "ours"):
            await outcomes(client, orders, **how)
    shares = [(case.shares("ours"), case.shares("grpcio")) for case in cases]
    # Which host begins is a draw, and each new schedule begins anew.
    different = [each for each in shares if max(abs(ours - theirs) for ours, theirs in zip(*each, strict=True)) > 12]
    assert different == []
