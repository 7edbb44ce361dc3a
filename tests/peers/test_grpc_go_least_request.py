"""LEAST_REQUEST (A48) with grpc-go, since grpcio does not have it: both must spread calls as the gRFC says.

Streams are open at the hosts meanwhile, and each client has drawn hosts of its own for them. So both are compared with
what the streams make of the next calls: of so many hosts drawn, one may be drawn twice, the one with the fewest.
TRXDS_SEEDS=100-109 draws others than usual.
"""

import os
import random
from collections import Counter
from contextlib import AsyncExitStack
from functools import partial

import pytest
import trio
from support.driven import OurClient
from support.history_peers import GRPC_GO

import trxds
from trxds.testing import ManagementServer, serve
from trxds.testing import resources as xds

pytestmark = pytest.mark.long

FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "1").partition("-")
PATH = "/a.A/M"
HOSTS = "abcdef"
CALLS = 400


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST or FIRST) + 1))
async def test_both_prefer_hosts_with_fewer_calls_as_a48_says(seed):
    draw, plane = random.Random(seed), ManagementServer()
    choice_count = draw.choice([2, 2, 3, 5])
    plane.put(xds.listener("shop", routes="r"), xds.routes("r", xds.route("c")))
    plane.put(
        xds.cluster("c") | {"lb_policy": "LEAST_REQUEST", "least_request_lb_config": {"choice_count": choice_count}}
    )
    async with AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(serve(fallback=partial(say, each))) for each in HOSTS]
        addresses = {name: host.address for name, host in zip(HOSTS, hosts, strict=True)}
        ads = await stack.enter_async_context(plane.serve())
        bootstrap = xds.bootstrap(ads)
        experiment = {"GRPC_EXPERIMENTAL_ENABLE_LEAST_REQUEST": "true"}
        theirs = await stack.enter_async_context(GRPC_GO.client("xds:///shop", bootstrap, experiment))
        channel = await stack.enter_async_context(trxds.open_channel("xds:///shop", bootstrap=bootstrap))
        nursery = await stack.enter_async_context(trio.open_nursery())
        clients = {"ours": Spread(OurClient(channel, nursery)), "grpc-go": Spread(theirs)}
        for step in range(3):
            count, ended = draw.choice([2, 4, 6]), draw.choice([0, 1, 3])
            names = HOSTS[step % 2 : 4 + step % 3]
            now = [addresses[each] for each in names]
            plane.put(xds.endpoints("c", xds.locality(*now)))
            for name, spread in clients.items():
                await spread.hold(count, ended)
                found, expected = await spread.measure(names, choice_count)
                assert found == expected, (name, spread.held, choice_count)
        nursery.cancel_scope.cancel()


async def say(name, call):
    async for _ in call:
        await call.send(name.encode())


class Spread:
    """A client, and the streams that it holds: by name, at which host."""

    def __init__(self, client):
        self._client = client
        self._begun = 0
        self.held = {}

    async def hold(self, count, ended):
        """End some streams, and open others."""
        for name in list(self.held)[:ended]:
            del self.held[name]
            await self._client.shut(name)
        for _ in range(count):
            name, self._begun = f"stream {self._begun}", self._begun + 1
            _, self.held[name], _ = await self._client.open(name, PATH, 5)

    async def measure(self, names, choice_count):
        """The calls that each host gets, and the number of them that A48 lets expect, within five deviations."""
        with trio.fail_after(60):
            while set(await self._calls(60)) != set(names):  # until all are connected, and no other is
                pass
        # A host that was away is a new one, and its streams before do not count.
        self.held = {stream: host if host in names else "" for stream, host in self.held.items()}
        found, open_ones = await self._calls(CALLS), Counter(self.held.values())
        expected = {}
        for name in names:
            as_few = [each for each in names if open_ones[each] == open_ones[name]]
            fewer = [each for each in names if open_ones[each] < open_ones[name]]
            not_fewer, more = 1 - len(fewer) / len(names), 1 - (len(fewer) + len(as_few)) / len(names)
            share = (not_fewer**choice_count - more**choice_count) / len(as_few)
            deviation = (CALLS * share * (1 - share)) ** 0.5
            expected[name] = pytest.approx(CALLS * share, abs=5 * deviation + 1)
        return {name: found[name] for name in names}, expected

    async def _calls(self, count):
        (outcomes,) = await self._client.calls([[PATH, [], count]], 5)
        return Counter(reply for _, reply, _ in outcomes)
