"""Random histories of a mesh: after each change grpcio's client and ours must do the same.

Each client has a control plane of its own, with the same resources. A difference counts only if it stays for
`PATIENCE`, since either client may be the slower one. TRXDS_SEEDS=100-109 draws other histories than usual. One that
fails says all its steps.
"""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import pytest
import trio
from msgspec import structs
from support.driven import Driven, OurClient, Outcome, grpcio_client
from support.random_history import (
    ALL_HOSTS,
    HOSTS,
    PATHS,
    SERVICE,
    TOPS,
    Resources,
    World,
    change,
    change_more,
)

import trxds
from trxds.core.backoff import Backoff
from trxds.testing import Call, ManagementServer, Server
from trxds.testing import resources as xds
from trxds.xds import xds_client

pytestmark = pytest.mark.long

STEPS = 12
PATIENCE = 20.0
BACKOFF = 0.12  # seconds, of both clients
RESOURCE_TIMEOUT = 1.2  # seconds in place of 15
FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0-1").partition("-")
SEEDS = range(int(FIRST), int(LAST or FIRST) + 1)

OPTIONS = {
    "grpc.initial_reconnect_backoff_ms": int(BACKOFF * 1000),
    "grpc.min_reconnect_backoff_ms": int(BACKOFF * 1000),
    "grpc.max_reconnect_backoff_ms": int(BACKOFF * 1000),
    "grpc.xds_resource_does_not_exist_timeout_ms": int(RESOURCE_TIMEOUT * 1000),
    "grpc.dns_enable_srv_queries": 0,
}
FEATURES = {"ignore deletions": ["ignore_resource_deletion"], "A88 fail": ["fail_on_data_errors"]}
A88 = "GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING"


@pytest.fixture
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of our client that grpcio's has as options."""
    policy = xds_client.resource_error_policy
    monkeypatch.setattr(
        xds_client,
        "resource_error_policy",
        lambda features, a88: structs.replace(policy(features, a88=a88), wait=RESOURCE_TIMEOUT),
    )
    for module in ("trxds.transport.pool", "trxds.xds.ads_stream"):
        monkeypatch.setattr(f"{module}.Backoff", partial(Backoff, base=BACKOFF, maximum=BACKOFF))


class Plane:
    """A control plane for one client."""

    def __init__(self, server: Server, management: ManagementServer) -> None:
        self.server = server
        self.management = management
        self.resources: Resources = {}

    async def apply(self, resources: Resources, *, up: bool) -> None:
        """Send what has changed; while the server is down, later."""
        before, self.resources = self.resources, resources
        if not up:
            self.server.stop()
        if changed := [resource for key, resource in resources.items() if before.get(key) != resource]:
            self.management.put(*changed)
        for kind, name in before.keys() - resources.keys():
            self.management.remove(kind, name)
        if up and not is_listening(self.server):
            await self.server.restart()

    def __repr__(self) -> str:
        said = [str(each) for each in self.management.requests[-10:]]
        return f"<Plane {self.management.streams} streams, {self.management.responses[-4:]}, {said}>"

    @property
    def progress(self) -> tuple[int, int]:
        return len(self.management.requests), len(self.management.responses)

    @property
    def is_answered(self) -> bool:
        """Whether the client has answered the last response of each kind; it may leave out the ones before."""
        responses, requests = self.management.responses, self.management.requests
        stream = max((each.stream for each in responses), default=0)
        last = {each.kind: each.nonce for each in responses if each.stream == stream}
        return set(last.values()) <= {each.nonce for each in requests}

    def subscriptions(self) -> dict[str, Any]:
        """What the client subscribes to; of LDS, RDS and CDS also whether it has rejected the last response."""
        wanted = {each.kind: (sorted(each.names), False) for each in self.management.requests}
        last = {each.kind: each.nonce for each in self.management.responses if each.kind != "EDS"}
        rejected = {each.kind for each in self.management.requests if each.error and last.get(each.kind) == each.nonce}
        return {kind: (names, kind in rejected) for kind, (names, _) in wanted.items()}


def is_listening(server: Server) -> bool:
    return "listening" in repr(server)


class History:
    """Both clients, and the mesh that they are in. `log` has what happened, for the one who has to find the rule."""

    def __init__(self, seed: int, world: World, hosts: dict[str, Server], planes: list[Plane]) -> None:
        self.world = world
        self.hosts = hosts
        self.planes = planes
        self.clients: list[Driven] = []
        self.log: list[str] = [f"mode: {world.mode}"]
        self.met: set[str] = set()  # the hosts that answered
        self._probes = Random(f"probes of {seed}")  # apart from the history, which they must not change
        self._cookies: list[str] = []  # that were set in the steps before
        self._calls: dict[str, tuple[str, list[tuple[str, str]], int]] = {}
        self._last: dict[str, Any] = {}  # what came of them after the step before

    async def both(self, operation: str, *arguments: Any) -> list[Any]:
        results: dict[int, Any] = {}

        async def run(number: int) -> None:
            results[number] = await getattr(self.clients[number], operation)(*arguments)

        async with trio.open_nursery() as nursery:
            for number in range(len(self.clients)):
                nursery.start_soon(run, number)
        return [results[number] for number in range(len(self.clients))]

    async def apply(self) -> None:
        for name, server in self.hosts.items():
            if name not in self.world.up:
                server.stop()
            elif not is_listening(server):
                await server.restart()
        for plane in self.planes:
            await plane.apply(self.world.resources(), up=self.world.plane_up)

    async def step(self) -> None:
        """One change, or several at once, with RPCs and streams that begin before it."""
        in_doubt = self.world.routes_in_doubt
        waiting = [path for path in PATHS if self._only_waits(path)]
        for path in waiting:
            await self.both("wait", path)
        # At one host, so that both clients' streams are there.
        streams = [path for path in PATHS if len(self._last[path][1]) == 1]
        opened = {path: await self.both("open", path, [], 5) for path in streams}
        self.log.append(", ".join(change(self.world)))
        await self.apply()
        for _ in range(self._probes.choice([0, 0, 0, 1, 2])):
            await trio.sleep(self._probes.choice([0, 0.001, 0.01]))
            self.log.append(f"    and at once {', '.join(change_more(self.world))}")
            await self.apply()
        await self.agree()
        for path, (ours, theirs) in opened.items():
            if ours[0] == theirs[0]:
                self.same(f"the stream {path}", *await self.both("talk", path, 2))
            await self.both("shut", path)
        for path in waiting:
            await self.look_at_waiting(path, in_doubt or self.world.routes_in_doubt)
        await self.agree_on_subscriptions()

    def _only_waits(self, path: str) -> bool:
        """Whether an RPC there would wait, and for the same cluster in both clients."""
        is_one = isinstance(self.world.tables[self.world.table].get(path), str)
        return is_one and self._last[path][0] == {"UNAVAILABLE"}

    async def look_at_waiting(self, path: str, in_doubt: bool) -> None:
        ours, theirs = await self.both("waited", path, 3 if not in_doubt else 0)
        # Where we do something else (docs/grfc-map.md): grpcio's RPCs hang if the routes are in error, and if their
        # cluster has left the routes and cannot serve.
        if not in_doubt and not (theirs[0] == "PENDING" and "no route names" in ours[1]):
            self.same(f"the waiting RPC {path}", ours, theirs)
        await self.both("forget", path)

    def same(self, what: str, ours: Outcome, theirs: Outcome) -> None:
        """Compare the codes alone, since each client has its own texts."""
        assert ours[0] == theirs[0], self.describe((what, ours, theirs))

    # -- agreement

    async def settle(self) -> None:
        """Wait until both clients have answered their control planes and say no more."""
        progress, quiet = None, 0
        while quiet < 5:
            await trio.sleep(0.02)
            before, progress = progress, [plane.progress for plane in self.planes]
            answered = not self.world.plane_up or all(plane.is_answered for plane in self.planes)
            quiet = quiet + 1 if before == progress and answered else 0

    async def agree(self) -> None:
        """Make the same RPCs by both until what came of the last ones is the same."""
        self._calls = self.draw_calls()
        rounds: list[list[Any]] = []
        with trio.move_on_after(PATIENCE):
            await self.settle()
            while not rounds or self.differences(rounds):
                rounds.append(await self.both("calls", list(self._calls.values()), 5))
                await trio.sleep(0.1 * (len(rounds) > 1))
        assert rounds, self.describe([repr(plane) for plane in self.planes])
        assert not self.differences(rounds), self.describe(self.differences(rounds))
        self._last = dict(zip(self._calls, map(self.summary, rounds[-1][0]), strict=True))
        self.met.update(*(hosts for _, hosts, _ in self._last.values()))
        found = {cookie for outcomes in rounds[-1][1] for _, _, cookies in outcomes for cookie in cookies}
        self._cookies = [*self._cookies, *sorted(found)][-20:]

    def draw_calls(self) -> dict[str, Any]:
        calls: dict[str, Any] = {path: (path, [], 24) for path in PATHS}
        for _ in range(4):
            host, cluster = self._probes.choice(HOSTS), self._probes.choice(TOPS)
            value = base64.b64encode(f"{self.hosts[host].address};{cluster}".encode()).decode()
            path = self._probes.choice(PATHS)
            calls[f"{path} {host};{cluster}"] = (path, [("cookie", f"{self.world.cookie}={value}")], 6)
        for cookie in self._probes.sample(self._cookies, min(3, len(self._cookies))):
            path = self._probes.choice(PATHS)
            calls[f"{path} {cookie}"] = (path, [("cookie", cookie)], 6)
        return calls

    def differences(self, rounds: list[list[Any]]) -> list[Any]:
        """The calls whose outcomes differ, however many of the last rounds are looked at.

        Hosts are drawn by locality and ring, so one round may meet others than the next.
        """
        found = []
        for number, call in enumerate(self._calls):
            for first in reversed(range(len(rounds))):
                ours, theirs = (
                    self.summary([each for one in rounds[first:] for each in one[client][number]]) for client in (0, 1)
                )
                if ours == theirs:
                    break
            else:
                found.append((call, ours, theirs, rounds[-1][0][number][:2], rounds[-1][1][number][:2]))
        return found

    def summary(self, outcomes: list[Outcome]) -> tuple[set[str], set[str], set[Any]]:
        """The codes, the hosts if they can be few, and the cookies: whether each names the host that answered."""
        codes = {code for code, _, _ in outcomes}
        hosts = {reply for code, reply, _ in outcomes if code == "OK"}
        cookies = {self.described(cookie, reply) for _, reply, cookies in outcomes for cookie in cookies}
        return codes, hosts if len(hosts) < 2 or len(outcomes) >= 24 else {"several"}, cookies

    def described(self, cookie: str, reply: str) -> Any:
        name, _, rest = cookie.partition("=")
        value, _, attributes = rest.partition(";")
        hosts, _, cluster = base64.b64decode(value).decode().partition(";")
        first, *others = hosts.split(",")
        return name, first == self.hosts[reply].address, len(others), cluster, attributes

    async def agree_on_subscriptions(self) -> None:
        if not self.world.plane_up:
            return
        with trio.move_on_after(PATIENCE):
            await self.settle()
            while self.subscriptions_differ():
                await self.settle()
        assert not self.subscriptions_differ(), self.describe([plane.subscriptions() for plane in self.planes])

    def subscriptions_differ(self) -> bool:
        return self.planes[0].subscriptions() != self.planes[1].subscriptions()

    def describe(self, found: Any) -> str:
        return "\n".join([*self.log, repr(found)])


@asynccontextmanager
async def history(seed: int, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[History]:
    async with trio.open_nursery() as nursery:

        async def run(handlers: Any = None, fallback: Any = None) -> Server:
            server = Server(handlers, fallback=fallback, remember_calls=False)
            await nursery.start(server.run)
            return server

        hosts = {name: await run(fallback=partial(say, name)) for name in ALL_HOSTS}
        world = World(Random(seed), {name: server.address for name, server in hosts.items()})
        managements = [ManagementServer() for _ in range(2)]
        planes = [Plane(await run(management.handlers), management) for management in managements]
        for plane in planes:
            await plane.apply(world.resources(), up=True)
        features = FEATURES.get(world.mode, [])
        monkeypatch.setenv(A88, str(world.mode.startswith("A88")).lower())
        ours, theirs = (xds.bootstrap(plane.server.address, features=features) for plane in planes)
        made = History(seed, world, hosts, planes)
        target = f"xds:///{SERVICE}"
        async with (
            trxds.open_channel(target, bootstrap=ours) as channel,
            grpcio_client(target, theirs, OPTIONS) as client,
            trio.open_nursery() as calls,
        ):
            made.clients = [OurClient(channel, calls), client]
            yield made
            calls.cancel_scope.cancel()
        nursery.cancel_scope.cancel()


async def say(name: str, call: Call) -> None:
    async for _ in call:
        await call.send(name.encode())


@pytest.mark.parametrize("seed", SEEDS)
async def test_both_do_the_same_after_each_change(
    seed: int, monkeypatch: pytest.MonkeyPatch, short_times: None
) -> None:
    async with history(seed, monkeypatch) as made:
        await made.agree()
        for _ in range(STEPS):
            await made.step()
    assert len(made.met) > 1, "two clients that do nothing would agree"
