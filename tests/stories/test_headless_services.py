"""Pods behind a headless Service of Kubernetes: DNS answers with those that are ready, and nothing else tells of them.

docs/how-to/kubernetes.md has the advice that these stories check. DNS and pods are in memory.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
import trio
from support import guides
from support.mesh import ask, bidi, spread
from support.plain import PlainMesh, hosts_in_memory

import trxds

NAME = "cart.shop.svc.cluster.local"
TARGET = f"dns:///{NAME}:50051"
AFFINITY = trxds.CookieAffinity("session")
CONFIG = guides.python_value("kubernetes", "CONFIG")
((_, _DEPLOYMENT, _),) = guides.documents("kubernetes")
_CONTAINER = _DEPLOYMENT["spec"]["template"]["spec"]["containers"][0]
PRE_STOP = int(_CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
"""Seconds for which a pod that is deleted goes on serving, out of DNS."""
CACHED = 30
"""Seconds for which the DNS of a cluster may answer with what it knew before."""


@dataclass
class Service:
    """The pods of a Service that are ready, which its name points to after a while."""

    mesh: PlainMesh
    nursery: trio.Nursery
    ready: list[str] = field(default_factory=list)
    changes: int = 0
    published: int = 0

    async def add_pod(self) -> str:
        pod = await self.mesh.add_host()
        self.set_ready(*self.ready, pod)
        return pod

    def set_ready(self, *pods: str) -> None:
        self.ready = list(pods)
        self.changes += 1
        self.nursery.start_soon(self._publish, self.changes, self.ready)

    async def _publish(self, change: int, pods: list[str]) -> None:
        await trio.sleep(CACHED)
        # Trio wakes those that sleep until the same moment in any order.
        if change > self.published:
            self.published = change
            self.mesh.points_to(*pods, name=NAME)

    async def delete_pod(self, pod: str, pre_stop: float = PRE_STOP) -> None:
        """As Kubernetes does it: out of DNS, preStop, SIGTERM; the server ends what it has begun."""
        self.set_ready(*(each for each in self.ready if each != pod))
        await trio.sleep(pre_stop)
        self.mesh.network.refuse(pod)
        self.mesh.servers[pod].goaway()

    def renew_connections(self) -> None:
        """As a server does it that bounds the age of its connections."""
        for pod in self.ready:
            self.mesh.servers[pod].goaway()

    def channel(self, **more):
        return self.mesh.channel(TARGET, **{"service_config": CONFIG, "affinity": AFFINITY} | more)


@asynccontextmanager
async def service(pods: int = 3):
    async with hosts_in_memory(0) as mesh, trio.open_nursery() as nursery:
        served = Service(mesh, nursery)
        for _ in range(pods):
            await served.add_pod()
        await trio.sleep(CACHED + 1)
        yield served
        nursery.cancel_scope.cancel()


async def settled() -> None:
    await trio.sleep(1)


async def call_on(channel: trxds.Channel, failures: list[trxds.RpcError]) -> None:
    """Call twice a second, and note what fails."""
    while True:
        try:
            await ask(channel)
        except trxds.RpcError as error:
            failures.append(error)
        await trio.sleep(0.5)


async def test_calls_go_to_every_pod_of_the_answer(autojump_clock):
    async with service() as pods, pods.channel() as channel:
        await ask(channel)
        await settled()
        assert await spread(channel, 9) == dict.fromkeys(pods.ready, 3)


async def test_by_the_default_policy_one_pod_gets_all_calls(autojump_clock):
    async with service() as pods, pods.channel(service_config=None) as channel:
        assert await spread(channel, 9) == {pods.ready[0]: 9}


async def test_a_new_pod_gets_no_calls_while_all_connections_hold(autojump_clock):
    async with service(2) as pods, pods.channel() as channel:
        await ask(channel)
        await pods.add_pod()
        for _ in range(60):
            await trio.sleep(60)
            await ask(channel)
        assert len(await spread(channel, 12)) == 2


async def test_a_new_pod_gets_calls_when_the_name_is_resolved_on_a_schedule(autojump_clock):
    async with service(2) as pods, pods.channel(refresh=30) as channel, channel.session(require=True) as session:
        pod = await ask(session)
        await ask(channel)
        await pods.add_pod()
        await trio.sleep(CACHED + 31)
        assert await spread(channel, 12) == dict.fromkeys(pods.ready, 4)
        assert await ask(session) == pod


async def test_a_new_pod_gets_calls_after_the_channel_was_idle(autojump_clock):
    async with service(2) as pods, pods.channel() as channel:
        await ask(channel)
        await pods.add_pod()
        await trio.sleep(3600)
        await ask(channel)
        await settled()
        assert await spread(channel, 12) == dict.fromkeys(pods.ready, 4)


async def test_a_new_pod_gets_calls_when_a_server_has_ended_an_old_connection(autojump_clock):
    async with service(2) as pods, pods.channel() as channel, trio.open_nursery() as nursery:
        failures = []
        nursery.start_soon(call_on, channel, failures)
        await settled()
        await pods.add_pod()
        await trio.sleep(60)
        pods.renew_connections()
        await settled()
        assert set(await spread(channel, 12)) == set(pods.ready)
        assert failures == []
        nursery.cancel_scope.cancel()


async def test_sessions_stay_when_the_servers_end_old_connections(autojump_clock):
    async with service(3) as pods, pods.channel() as channel, channel.session(require=True) as session:
        pod = await ask(session)
        for _ in range(5):
            await trio.sleep(60)
            pods.renew_connections()
            assert await ask(session) == pod


async def failures_of_a_rolling_update(asked_at: float, pre_stop: float) -> list[trxds.RpcError]:
    """Replace all pods at once, as a Deployment may; so many seconds later all old connections end.

    DNS is asked then, has nothing new to say yet, and is asked again 30 seconds later.
    """
    failures: list[trxds.RpcError] = []
    async with service(3) as pods, pods.channel() as channel, trio.open_nursery() as nursery:
        nursery.start_soon(call_on, channel, failures)
        await trio.sleep(60)
        old = list(pods.ready)
        for pod in old:
            await pods.add_pod()
            nursery.start_soon(pods.delete_pod, pod, pre_stop)
        await trio.sleep(asked_at)
        for pod in old:
            pods.mesh.servers[pod].goaway()
        await trio.sleep(120)
        assert set(await spread(channel, 12)) == set(pods.ready)
        assert not set(pods.ready) & set(old)
        nursery.cancel_scope.cancel()
    return failures


@pytest.mark.parametrize("asked_at", [0, 15, 29])
async def test_a_rolling_update_fails_no_call(asked_at, autojump_clock):
    assert await failures_of_a_rolling_update(asked_at, PRE_STOP) == []


async def test_a_rolling_update_that_is_faster_than_dns_fails_calls(autojump_clock):
    assert await failures_of_a_rolling_update(0, 20) != []


async def test_a_session_stays_on_a_deleted_pod_until_that_ends_and_moves_once(autojump_clock):
    async with service(3) as pods, pods.channel() as channel, channel.session(require=True) as session:
        pod = await ask(session)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pods.delete_pod, pod)
            await trio.sleep(PRE_STOP - 1)
            assert await ask(session) == pod
        await settled()
        moved = Counter([await ask(session) for _ in range(5)])
        assert len(moved) == 1 and pod not in moved


async def test_a_session_moves_from_a_pod_that_sleeps_when_dns_is_asked_again(autojump_clock):
    async with service(3) as pods, pods.channel() as channel:
        await ask(channel)
        await settled()
        async with channel.session(require=True) as session, trio.open_nursery() as nursery:
            leaving = await ask(session)
            nursery.start_soon(pods.delete_pod, leaving)
            await trio.sleep(CACHED + 1)
            assert await ask(session) == leaving
            pods.mesh.servers[pods.ready[0]].goaway()
            await settled()
            assert await ask(session) != leaving


async def test_the_sessions_of_other_pods_stay_when_a_pod_is_deleted(autojump_clock):
    async with service(3) as pods, pods.channel() as channel:
        await ask(channel)
        await settled()
        async with channel.session() as one, channel.session() as other:
            leaving, staying = await ask(one), await ask(other)
            assert leaving != staying
            await pods.delete_pod(leaving)
            await settled()
            await ask(one)
            assert await spread(other, 5) == {staying: 5}


async def test_an_rpc_that_a_deleted_pod_has_begun_ends_there(autojump_clock):
    async with service(2) as pods, pods.channel() as channel, bidi(channel).open() as call:
        await call.send(b"one")
        pod = (await call.receive()).split()[0].decode()
        await pods.delete_pod(pod)
        await settled()
        await call.send(b"two")
        assert await call.receive() == f"{pod} two".encode()
        call.done_sending()
        assert [message async for message in call] == []


async def test_a_pod_that_dies_without_a_word_loses_only_what_it_was_working_on(autojump_clock):
    async with service(2) as pods, pods.channel() as channel:
        await ask(channel)
        await settled()
        pod = pods.ready[0]
        pods.set_ready(pods.ready[1])
        pods.mesh.fail(pod)
        await settled()
        assert await spread(channel, 5) == {pods.ready[0]: 5}


async def test_a_name_without_ready_pods_fails_calls_and_serves_them_when_one_is_ready(autojump_clock):
    async with service(1) as pods:
        (pod,) = pods.ready
        pods.set_ready()
        await trio.sleep(CACHED + 1)
        async with pods.channel(service_config=None) as channel:
            with pytest.raises(trxds.RpcError, match=re.escape(f'DNS name "{NAME}:50051" cannot be resolved')):
                await ask(channel)
            pods.set_ready(pod)
            with suppress(trxds.RpcError):
                await ask(channel)
            assert await ask(channel, wait_for_ready=True) == pod
