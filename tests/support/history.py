"""A random history of a mesh, with a peer's client and ours, which must do the same after each change.

Each client has a control plane of its own, with the same resources. A difference counts only if it stays for
`PATIENCE`, since either client may be the slower one. A history that fails says all its steps.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import pytest
import trio
from msgspec import structs

import trxds
from trxds import StatusCode
from trxds.core.backoff import Backoff
from trxds.testing import Call, ManagementServer, Server
from trxds.xds import xds_client

from .driven import Driven, OurClient, Outcome
from .history_authorities import OTHER
from .history_changes import change, change_more
from .history_hosts import Host
from .history_outliers import Outliers
from .history_peers import BACKOFF, CONNECT_TIMEOUT, GRPCIO, RESOURCE_TIMEOUT, Peer
from .history_planes import Plane, bootstrap
from .history_topics import Topic
from .ports import reserved_address
from .random_history import ALL_HOSTS, HOSTS, PATHS, SERVICE, TOPS, World

PATIENCE = 20.0  # longer than the 15 s that grpcio waits for a resource, for which it has no option
REPORTED_WITHIN = 2.2  # seconds; grpcio reports each second, and not more often
DEADLINE = 0.3  # seconds, of RPCs that wait for ready

FEATURES = {"ignore deletions": ["ignore_resource_deletion"], "A88 fail": ["fail_on_data_errors"]}
A88 = "GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING"


def shorten_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give our client the times above."""
    policy = xds_client.resource_error_policy
    monkeypatch.setattr(
        xds_client,
        "resource_error_policy",
        lambda features, a88: structs.replace(policy(features, a88=a88), wait=RESOURCE_TIMEOUT),
    )
    monkeypatch.setattr("trxds.transport.subchannel.MIN_CONNECT_TIME", CONNECT_TIMEOUT)
    for module in ("trxds.transport.pool", "trxds.xds.ads_stream"):
        monkeypatch.setattr(f"{module}.Backoff", partial(Backoff, base=BACKOFF, maximum=BACKOFF))


class History:
    """Both clients, and the mesh that they are in. `log` has what happened, for the one who has to find the rule."""

    def __init__(self, seed: int, world: World, hosts: dict[str, Host], planes: list[Plane]) -> None:
        self.world = world
        self.hosts = hosts
        self.planes = planes
        self.clients: list[Driven] = []
        self.log: list[str] = [f"mode: {world.mode}, {world!r}"]
        self.met: set[str] = set()  # the hosts that answered
        self._probes = Random(f"probes of {seed}")  # apart from the history, which they must not change
        self._held: dict[str, bool] = {}  # streams, and whether they are open still
        self._routes_in_doubt = False  # as both clients know it
        self._mixed = False  # the routes came into doubt together with other changes
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
        self.world.note_lost_services()
        for name, host in self.hosts.items():
            await host.become(self.world.state_of(name))
        for plane in self.planes:
            await plane.apply()

    async def step(self) -> None:
        """One change, or several at once, with RPCs and streams that begin before it."""
        # What was repaired while a control plane was down no client knows yet.
        if self.world.planes_up == set(self.world.planes):
            self._routes_in_doubt = self.world.routes_in_doubt
        elif self.world.routes_lack_a_server:
            self._routes_in_doubt = True
        in_doubt, were_up, was_withheld = self._routes_in_doubt, set(self.world.up), self.world.withheld
        await self.let_go()
        waiting = [path for path in PATHS if self._only_waits(path)]
        for path in waiting:
            await self.both("wait", path, path, None)
            await self.both("wait", f"soon {path}", path, DEADLINE)
        # At one host, so that both clients' streams are there, and where that counts in the same cluster.
        holds = any(topic.holds_streams for topic in self.world.topics)
        streams = [path for path in PATHS if self._has_one_host(path)]
        if holds:
            streams = [path for path in streams if self._is_one(path) and self._last[path][0] == {"OK"}]
        opened = {path: await self.both("open", path, path, 5) for path in streams}
        self.log.append(", ".join(done := change(self.world)))
        await self.apply()
        for _ in range(self._probes.choice([0, 0, 0, 1, 2])):
            await trio.sleep(self._probes.choice([0, 0.001, 0.01]))
            done += (more := change_more(self.world))
            self.log.append(f"    and at once {', '.join(more)}")
            await self.apply()
        await self.agree()
        for path, (ours, theirs) in opened.items():
            if ours[0] == theirs[0] == "OK":
                self.same(f"the stream {path}", *await self.both("talk", path, 2))
            await self.both("shut", path)
        # A host that is no longer ejected takes RPCs, but its connection may end just then; and RPCs that wait together
        # compete where only so many may be in flight.
        may_end = any(isinstance(topic, Outliers) for topic in self.world.topics) and not were_up <= self.world.up
        # And one client takes the next routes 15 s later than the other, if they need what is withheld.
        is_late = was_withheld or self.world.withheld
        is_chance = bool(in_doubt or self.world.routes_in_doubt or may_end or holds or is_late)
        for path in waiting:
            may_differ = self.world.is_incomparable(path) or self.world.may_fail(path)
            await self.look_at_waiting(path, is_chance or may_differ, len(done))
        # What the last routes need stays watched while the routes are in error; whether an error or another change was
        # first depends on which responses a client takes together.
        self._mixed = self.world.routes_in_doubt and (self._mixed or (not in_doubt and len(done) > 1))
        if not self._mixed:
            await self.agree_on_subscriptions()
        if holds:
            await self.hold()
        if any(topic.reports_loads for topic in self.world.topics) and self._probes.random() < 0.6:
            await self.agree_on_loads()

    async def hold(self) -> None:
        """Open streams that stay open for some steps, where both clients count them for the same cluster."""
        for path in PATHS:
            agreed = self._is_one(path) and len(self._last[path][0]) == 1 and not self.world.is_incomparable(path)
            for _ in range(self._probes.choice([0, 0, 1, 2]) if agreed else 0):
                name = f"held {len(self._held)}"
                ours, theirs = await self.both("open", name, path, 5)
                self._held[name] = True
                self.log.append(f"    {name} at {path}: {ours[:2]}")
                self.same(f"the stream {name} of {path}", ours, theirs)
                if ours[:2] != theirs[:2]:  # at two hosts, of which one may die
                    await self.end(name)

    async def let_go(self) -> None:
        for name in [name for name, is_open in self._held.items() if is_open and self._probes.random() < 0.4]:
            await self.end(name)

    async def end(self, name: str) -> None:
        self._held[name] = False
        self.log.append(f"    {name} ends")
        await self.both("shut", name)

    def _only_waits(self, path: str) -> bool:
        """Whether an RPC there would wait, and for the same cluster in both clients."""
        is_comparable = self._is_one(path) and not self.world.is_incomparable(path)
        return is_comparable and self._last[path][0] == {"UNAVAILABLE"}

    def _has_one_host(self, path: str) -> bool:
        """Whether RPCs there met one host, in both clients."""
        return len(self._last[path][1]) == 1 and not self.world.is_incomparable(path)

    def _is_one(self, path: str) -> bool:
        """Whether there is no draw among clusters."""
        return isinstance(self.world.tables[self.world.table].get(path), str)

    async def look_at_waiting(self, path: str, is_chance: bool, changes: int) -> None:
        ours, theirs = await self.both("waited", path, 0.3 if not is_chance else 0)
        if not is_chance and ours[0] != theirs[0]:  # one may be late
            if ours[0] == "PENDING":
                ours = await self.clients[0].waited(path, 3)
            elif theirs[0] == "PENDING":
                theirs = await self.clients[1].waited(path, 3)
        # Where we do something else (docs/grfc-map.md): grpcio's RPCs hang if the routes are in error, and if their
        # cluster has left the routes and cannot serve. It may have got hosts in the same step, before or after that.
        left = "no route names" in ours[1] and (theirs[0] == "PENDING" or changes > 1)
        if not is_chance and not left:
            self.same(f"the waiting RPC {path}", ours, theirs)
        await self.both("forget", path)
        ours, theirs = await self.both("waited", f"soon {path}", 3)
        if not is_chance and self._only_waits(path) and "no route names" not in ours[1]:
            self.same(f"the RPC {path} that waits {DEADLINE} s", ours, theirs)
        await self.both("forget", f"soon {path}")

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
            # Once there have been calls, for which grpcio waits, it connects again seconds after a server has returned.
            used = not self._last or all(plane.is_used for plane in self.planes if plane.is_up)
            answered = used and all(plane.is_answered for plane in self.planes if plane.is_up)
            quiet = quiet + 1 if before == progress and answered else 0

    async def agree(self) -> None:
        """Make the same RPCs by both until what came of the last ones is the same."""
        self._calls = self.draw_calls()
        rounds: list[list[Any]] = []
        with trio.move_on_after(PATIENCE) as patience:
            await self.settle()
        assert not patience.cancelled_caught, self.describe([repr(plane) for plane in self.planes])
        until = trio.current_time() + max([topic.settling for topic in self.world.topics], default=0)
        while trio.current_time() < until:
            await self.both("calls", list(self._calls.values()), 5)
        # Not cancelled, or an answer of grpcio's would be left over.
        while not rounds or (self.differences(rounds) and trio.current_time() < patience.deadline):
            rounds.append(await self.both("calls", list(self._calls.values()), 5))
            await trio.sleep(0.1 * (len(rounds) > 1))
        if self.differences(rounds):
            held = {name: await self.both("talk", name, 0.2) for name, is_open in self._held.items() if is_open}
            raise AssertionError(self.describe([*self.differences(rounds), held]))
        self._last = dict(zip(self._calls, map(self.summary, self._calls, rounds[-1][0]), strict=True))
        self.met.update(*(hosts for _, hosts, _ in self._last.values()))
        found = {cookie for outcomes in rounds[-1][1] for _, _, cookies in outcomes for cookie in cookies}
        self._cookies = [*self._cookies, *sorted(found)][-20:]

    def draw_calls(self) -> dict[str, Any]:
        calls: dict[str, Any] = {path: (path, [], 24) for path in PATHS}
        for metadata in [each for topic in self.world.topics for each in topic.calls(self._probes)]:
            calls |= {f"{path} {metadata}": (path, metadata, 3) for path in PATHS}
        if not self.world.peer.has_sessions:
            return calls
        for _ in range(4):
            host, cluster = self._probes.choice(HOSTS), self._probes.choice(TOPS)
            said = f"{self.hosts[host].address};{self.world.name('CDS', cluster)}"
            value = base64.b64encode(said.encode()).decode()
            path = self._probes.choice(PATHS)
            calls[f"{path} {host};{cluster}"] = (path, [("cookie", f"{self.world.cookie}={value}")], 6)
        for cookie in self._probes.sample(self._cookies, min(3, len(self._cookies))):
            path = self._probes.choice(PATHS)
            # Of several hosts grpcio does not see that one is connected for another cluster (docs/grfc-map.md).
            first, *others = hosts_of(cookie)[0]
            name = next(name for name, host in self.hosts.items() if host.address == first)
            if not (others and self.world.is_shared(name)):
                calls[f"{path} {cookie}"] = (path, [("cookie", cookie)], 6)
        return calls

    def differences(self, rounds: list[list[Any]]) -> list[Any]:
        """The calls whose outcomes differ, however many of the last rounds are looked at.

        Hosts are drawn by locality and ring, so one round may meet others than the next.
        """
        found = []
        for number, (call, (path, *_)) in enumerate(self._calls.items()):
            if self.world.is_incomparable(path):
                continue
            for first in reversed(range(len(rounds))):
                ours, theirs = (
                    self.summary(call, [each for one in rounds[first:] for each in one[client][number]])
                    for client in (0, 1)
                )
                if ours == theirs:
                    break
            else:
                found.append((call, ours, theirs, rounds[-1][0][number][:2], rounds[-1][1][number][:2]))
        return found

    def summary(self, call: str, outcomes: list[Outcome]) -> tuple[set[str], set[str], set[Any]]:
        """The codes, the hosts if they can be few, and the cookies: whether each names the host that answered."""
        codes = {code for code, _, _ in outcomes}
        hosts = {reply for code, reply, _ in outcomes if code == "OK"}
        cookies = {self.described(cookie, reply) for _, reply, cookies in outcomes for cookie in cookies}
        if "x-fail" in call:  # where one attempt of two fails, the other one meets every second host
            return codes, set(), set()
        return codes, hosts if len(hosts) < 2 or len(outcomes) >= 24 else {"several"}, cookies

    def described(self, cookie: str, reply: str) -> Any:
        name, _, rest = cookie.partition("=")
        (first, *others), cluster = hosts_of(cookie)
        return name, first == self.hosts[reply].address, len(others), cluster, rest.partition(";")[2]

    async def agree_on_subscriptions(self) -> None:
        with trio.move_on_after(PATIENCE):
            await self.settle()
            while self.subscriptions_differ():
                await self.settle()
        assert not self.subscriptions_differ(), self.describe([plane.subscriptions() for plane in self.planes])

    async def agree_on_loads(self) -> None:
        """Make calls that meet the same clusters, and compare what each client reports of them."""
        if self._routes_in_doubt or self.world.routes_in_doubt or "first" not in self.world.planes_up:
            return
        # Not those of sessions: for a host that only they reach grpcio goes on with the load reports that the cluster
        # had when it was connected.
        calls = [each for each in self._calls.values() if self._is_one(each[0]) and "cookie" not in dict(each[1])]
        until = trio.current_time() + PATIENCE
        ours, theirs = await self.loads(calls)
        while ours != theirs and trio.current_time() < until:
            ours, theirs = await self.loads(calls)
        if ours != theirs:
            # What was counted before a cluster's reports ended grpcio may go on to report (docs/grfc-map.md).
            without_calls = await self.loads([])
            assert not without_calls[0] and without_calls[1], self.describe(("loads", ours, theirs, without_calls))
        self.log.append(f"    loads: {ours}")

    async def loads(self, calls: Any) -> list[Any]:
        """What each client reports of these calls, if no report is late."""
        await trio.sleep(REPORTED_WITHIN)  # what was before
        planes = self.planes[:2]
        before = [len(plane.management.load.requests) for plane in planes]
        await self.both("calls", calls, 5)
        await trio.sleep(REPORTED_WITHIN)
        return [plane.loads(first) for plane, first in zip(planes, before, strict=True)]

    def subscriptions_differ(self) -> bool:
        ours, theirs = self.planes[::2], self.planes[1::2]
        return list(map(self.comparable, ours)) != list(map(self.comparable, theirs))

    def comparable(self, plane: Plane) -> Any:
        """What is subscribed to there, but for what the peer does not watch at the moment."""
        found, peer = plane.subscriptions(), self.world.peer
        unlike = {"RDS"} if self.world.listener_in_doubt and not peer.watches_routes_without_a_listener else set()
        if not peer.fails_without_a_cluster and any(map(self.world.lacks_a_part, PATHS)):
            unlike |= {"CDS", "EDS"}
        if not peer.watches_clusters_without_routes and self.world.routes_in_doubt:
            unlike |= {"RDS", "CDS", "EDS"}
        return {kind: each for kind, each in found.items() if kind not in unlike} if unlike else found

    def describe(self, found: Any) -> str:
        return "\n".join([*self.log, repr(found)])


def hosts_of(cookie: str) -> tuple[list[str], str]:
    """The addresses and the cluster that a cookie names."""
    value = cookie.partition("=")[2].partition(";")[0]
    hosts, _, cluster = base64.b64decode(value).decode().partition(";")
    return hosts.split(","), cluster


@asynccontextmanager
async def history(
    seed: int, monkeypatch: pytest.MonkeyPatch, *topics: Topic, peer: Peer = GRPCIO
) -> AsyncIterator[History]:
    """The history of that seed, whose clients have the first configuration."""
    shorten_times(monkeypatch)
    async with AsyncExitStack() as ports, trio.open_nursery() as nursery:

        async def run(handlers: Any = None, fallback: Any = None) -> Server:
            address = ports.enter_context(reserved_address())  # nobody else listens there while it is down
            server = Server(handlers, fallback=fallback, address=address, remember_calls=False)
            await nursery.start(server.run)
            return server

        failing: set[str] = set()
        hosts = {name: Host(await run(fallback=partial(say, name, failing)), nursery) for name in ALL_HOSTS}
        world = World(Random(seed), {name: host.address for name, host in hosts.items()}, topics, peer)
        world.failing = failing
        planes = []
        for role in world.planes:
            for _ in ("ours", "theirs"):
                management = ManagementServer()
                planes.append(Plane(role, await run(management.handlers), management, world))
        for plane in planes:
            await plane.apply()
        features = FEATURES.get(world.mode, [])
        monkeypatch.setenv(A88, str(world.mode.startswith("A88")).lower())
        ours, theirs = (bootstrap(planes[number::2], world, features) for number in (0, 1))
        made = History(seed, world, hosts, planes)
        target = f"xds://{OTHER if '//' in world.name('LDS', SERVICE) else ''}/{SERVICE}"
        environ = {name: value for topic in topics for name, value in topic.environ.items()}
        async with (
            trxds.open_channel(target, bootstrap=ours) as channel,
            peer.client(target, theirs, environ) as client,
            trio.open_nursery() as calls,
        ):
            made.clients = [OurClient(channel, calls), client]
            yield made
            calls.cancel_scope.cancel()
        nursery.cancel_scope.cancel()


async def say(name: str, failing: set[str], call: Call) -> None:
    """Answer as the host `name`; fail if it is failing, and in so many attempts as the call says."""
    said = {key: value for key, value in call.metadata}
    if name in failing:
        call.abort(StatusCode.ABORTED, "failing")
    if int(said.get("grpc-previous-rpc-attempts", "0")) < int(said.get("x-fail", "0")):
        call.abort(StatusCode[str(said["x-code"])], "as told")
    async for _ in call:
        await call.send(name.encode())
