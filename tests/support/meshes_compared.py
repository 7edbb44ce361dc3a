"""Calls to random meshes that two clients make, and where they do not make the same of them."""

import base64
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

import trxds
from trxds.testing import ManagementServer
from trxds.testing import resources as xds

from . import java_peers
from .two_clients import Order, outcomes

_PEERS = Path(__file__).parents[1] / "peers"
PATIENCE = 30  # seconds; on a busy machine a peer alone may need ten to begin
# grpcio 1.85 weighs endpoints by A113, and reads the hash keys of A76, only with these.
AS_WE_DO = {
    "GRPC_EXPERIMENTAL_PF_WEIGHTED_SHUFFLING": "true",
    "GRPC_XDS_ENDPOINT_HASH_KEY_BACKWARD_COMPAT": "false",
}


@asynccontextmanager
async def named_servers(*names):
    """The addresses of grpcio servers, by name."""
    command = [sys.executable, str(_PEERS / "grpcio_named_servers.py"), *names]
    async with trio.open_nursery() as nursery:
        process = await nursery.start(partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        line = b""
        while not line.endswith(b"\n"):
            line += await process.stdout.receive_some()
        yield json.loads(line)
        await process.stdin.aclose()


@dataclass(frozen=True)
class Difference:
    call: dict
    ours: object
    theirs: object
    resources: list


async def grpcio_outcomes(cases, bootstrap):
    done = await trio.run_process(
        [sys.executable, str(_PEERS / "grpcio_cases.py")],
        stdin=json.dumps([case.order() for case in cases]).encode(),
        capture_stdout=True,
        capture_stderr=True,  # it logs each refused resource
        env={**os.environ, **AS_WE_DO, "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(bootstrap)},
    )
    return json.loads(done.stdout)


async def grpc_go_outcomes(cases, bootstrap):
    """The same by grpc-go."""
    return await _outcomes_by_orders("grpc-go", cases, bootstrap)


async def grpc_java_outcomes(cases, bootstrap):
    """The same by grpc-java."""
    return await _outcomes_by_orders("grpc-java", cases, bootstrap, **java_peers.AS_WE_DO)


async def _outcomes_by_orders(client, cases, bootstrap, **environ):
    """The same by a client whose program plays orders."""
    orders = [Order(f"xds:///{case.target}", [*_WARM_UP] * case.warm + _repeated(case)) for case in cases]
    played = await outcomes(client, orders, GRPC_XDS_BOOTSTRAP_CONFIG=json.dumps(bootstrap), **environ)
    found = []
    for case, of_case in zip(cases, played, strict=True):
        said = [_said(each) for each in of_case[len(_WARM_UP) * case.warm :]]
        found.append([said[first : first + case.times] for first in range(0, len(said), case.times)])
    return found


_WARM_UP = [{"path": "/warm/Up", "metadata": [], "at": 0.02 * number} for number in range(6)]


def _repeated(case):
    message = base64.b64encode(b"x").decode()
    return [{**call, "messages": [message]} for call in case.calls for _ in range(case.times)]


def _said(outcome):
    return outcome.code, base64.b64decode(outcome.replies[0]).decode() if outcome.replies else outcome.message, []


async def differences(cases, read, *more, peer=grpcio_outcomes):
    """Where `read` makes something else of our outcomes than of the peer's; `more` are resources for all cases."""
    plane = ManagementServer()
    plane.put(*more, *(resource for case in cases for resource in case.resources))
    async with plane.serve() as ads:
        bootstrap = xds.bootstrap(ads)
        theirs = await peer(cases, bootstrap)
        ours = [await our_outcomes(case, bootstrap) for case in cases]
    compared = [
        Difference(call, read(mine), read(other), case.resources)
        for case, all_mine, all_theirs in zip(cases, ours, theirs, strict=True)
        for call, mine, other in zip(case.calls, all_mine, all_theirs, strict=True)
    ]
    assert "OK" in {code for outcomes in theirs for each in outcomes for code, _, _ in each}
    return [each for each in compared if each.ours != each.theirs]


async def our_outcomes(case, bootstrap):
    async with trxds.open_channel(f"xds:///{case.target}", bootstrap=bootstrap) as channel:
        for _ in range(6 if case.warm else 0):
            await our_outcome(channel, "/warm/Up", [])
            await trio.sleep(0.02)  # the other hosts get connected
        return [[await our_outcome(channel, **call) for _ in range(case.times)] for call in case.calls]


async def our_outcome(channel, path, metadata):
    pairs = [(key, base64.b64decode(value) if key.endswith("-bin") else value) for key, value in metadata]
    try:
        async with channel.method(path).open(b"x", metadata=pairs, timeout=PATIENCE) as call:
            reply = await call.receive()
            initial = await call.wait_initial_metadata()
    except trxds.RpcError as error:
        return error.status.code.name, str(error), []
    return "OK", reply.decode(), [value for key, value in initial if key == "set-cookie"]


def codes_and_hosts(outcomes):
    """The codes, and the hosts that were met: one of them, or which ones."""
    return {code for code, _, _ in outcomes}, {reply for code, reply, _ in outcomes if code == "OK"}


def met(outcomes):
    """Two hosts and more are a draw by locality or ring, which is each client's."""
    codes, hosts = codes_and_hosts(outcomes)
    return codes, hosts if len(hosts) < 2 else "several"
