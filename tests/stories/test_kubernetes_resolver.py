"""The example resolver of Kubernetes EndpointSlices keeps to the API's rules, against a server of the API."""

from __future__ import annotations

import importlib.util
import json
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import h11
import pytest
import trio
from support.mesh import ask, spread
from support.plain import hosts_in_memory
from support.resolvers import ROUND_ROBIN, settled

from trxds import RpcError
from trxds.resolvers import HealthStatus

SOURCE = Path(__file__).parents[2] / "examples" / "kubernetes_resolver.py"
spec = importlib.util.spec_from_file_location("kubernetes_resolver", SOURCE)
example = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = example  # dataclasses look their module up
spec.loader.exec_module(example)


@asynccontextmanager
async def shop(count=2, cluster=None):
    """Hosts in memory, a cluster that knows them, and a channel by the resolver."""
    cluster = cluster or example.Cluster()
    async with hosts_in_memory(count) as mesh, trio.open_nursery() as nursery:

        async def connect():
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(cluster.answer, theirs)
            return ours

        for host in mesh.hosts:
            cluster.set(host, ready=True)
        resolver = example.kubernetes_resolver(example.ApiServer("kubernetes", connect))
        options = {"resolvers": {"k8s": resolver}, "service_config": ROUND_ROBIN}
        async with mesh.channel("k8s:///shop/cart:grpc", **options) as channel:
            yield mesh, cluster, channel
        nursery.cancel_scope.cancel()


async def test_the_slices_of_the_service_are_listed_and_then_watched_from_there(autojump_clock):
    async with shop() as (mesh, cluster, channel):
        await ask(channel)
        await settled()
        assert await spread(channel, 4) == dict.fromkeys(mesh.hosts, 2)
    path = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?labelSelector=kubernetes.io/service-name%3Dcart"
    assert cluster.requests == [path, f"{path}&watch=1&allowWatchBookmarks=true&resourceVersion=2"]


async def test_a_change_arrives_without_a_request(autojump_clock):
    async with shop() as (mesh, cluster, channel):
        await ask(channel)
        cluster.set(mesh.hosts[0])
        await settled()
        assert await spread(channel, 2) == {mesh.hosts[1]: 2}


async def test_a_service_without_pods_fails_calls_and_names_the_port(autojump_clock):
    async with shop(0) as (_, _, channel):
        with pytest.raises(RpcError, match="no EndpointSlice has a serving pod with the port grpc"):
            await ask(channel)


@pytest.mark.parametrize(
    ("conditions", "health"),
    [
        ({}, HealthStatus.HEALTHY),  # the API: an unset `ready` means ready
        ({"ready": True}, HealthStatus.HEALTHY),
        ({"ready": False, "serving": True, "terminating": True}, HealthStatus.DRAINING),
        ({"ready": False, "serving": False, "terminating": True}, None),
        ({"ready": False}, None),
    ],
)
def test_the_conditions_of_a_pod_are_its_health(conditions, health):
    found = example.endpoint_of({"addresses": ["10.0.0.1"], "conditions": conditions}, 443)
    assert (found.health if found is not None else None) is health


def test_a_pod_has_its_zone_and_name_as_attributes():
    pod = {"addresses": ["fd00::1"], "zone": "a", "targetRef": {"name": "cart-1"}}
    found = example.endpoint_of(pod, 443)
    assert found.addresses == ("[fd00::1]:443",)
    assert found.attributes == {"zone": "a", "pod": "cart-1"}


@pytest.mark.parametrize("port", ["grpc", "50051"])
def test_a_port_is_found_by_name_and_by_number(port):
    ports = [{"name": "http", "port": 80}, {"name": "grpc", "port": 50051}]
    item = {"addressType": "IPv4", "ports": ports, "endpoints": [{"addresses": ["10.0.0.1"]}]}
    (found,) = example.update_of({"cart-1": item}, port).checked_endpoints
    assert found.addresses == ("10.0.0.1:50051",)


def test_addresses_that_are_names_are_left_out():
    item = {"addressType": "FQDN", "ports": [{"name": "grpc", "port": 1}], "endpoints": [{"addresses": ["a.example"]}]}
    assert example.update_of({"cart-1": item}, "grpc").checked_endpoints == ()


class Scripted(example.Cluster):
    """It answers its first watches with these documents, and closes."""

    def __init__(self, *answers):
        super().__init__()
        self.answers = list(answers)

    async def watch(self, version, send):
        if self.answers:
            for event in self.answers.pop(0):
                await send(event)
            raise trio.BrokenResourceError
        await super().watch(version, send)


async def test_a_watch_that_is_too_old_begins_with_a_list_again(autojump_clock):
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410}}
    cluster = Scripted([gone])
    async with shop(2, cluster) as (mesh, _, channel):
        await trio.sleep(5)
        assert await spread(channel, 4) == dict.fromkeys(mesh.hosts, 2)
    assert ["watch=1" in each for each in cluster.requests] == [False, True, False, True]


async def test_a_bookmark_moves_the_version_and_changes_no_endpoint(autojump_clock):
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "2"}}}
    cluster = Scripted([bookmark])
    async with shop(2, cluster) as (mesh, _, channel):
        await trio.sleep(5)
        assert await spread(channel, 4) == dict.fromkeys(mesh.hosts, 2)


async def test_while_the_api_server_is_away_the_last_pods_stay(autojump_clock):
    cluster = Scripted([])
    async with shop(2, cluster) as (mesh, _, channel):
        await ask(channel)
        await trio.sleep(0.5)
        assert "the connection to the API server broke" in "".join(channel.admin_view().warnings)
        assert await spread(channel, 4) == dict.fromkeys(mesh.hosts, 2)
        await trio.sleep(3)
        assert not channel.admin_view().warnings


async def test_a_refusal_of_the_api_server_is_named(autojump_clock):
    async def forbid(stream):
        http = h11.Connection(h11.SERVER)
        while not isinstance(http.next_event(), h11.Request):
            http.receive_data(bytes(await stream.receive_some()))
        await stream.send_all(http.send(h11.Response(status_code=403, headers=[("content-length", "0")])))

    cluster = example.Cluster()
    cluster.answer = forbid
    async with shop(0, cluster) as (_, _, channel):
        with pytest.raises(RpcError, match=r"OSError: the API server answers GET /apis/discovery\.k8s\.io/.* with 403"):
            await ask(channel)


async def test_the_token_is_read_for_each_request(tmp_path):
    token, seen = tmp_path / "token", []

    async def answer(stream):
        http = h11.Connection(h11.SERVER)
        while not isinstance(event := http.next_event(), h11.Request):
            http.receive_data(bytes(await stream.receive_some()))
        seen.append(dict(event.headers)[b"authorization"])
        await stream.send_all(http.send(h11.Response(status_code=200, headers=[("content-length", "2")])))
        await stream.send_all(http.send(h11.Data(data=json.dumps({}).encode())))

    async with trio.open_nursery() as nursery:

        async def connect():
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(answer, theirs)
            return ours

        api = example.ApiServer("kubernetes", partial(connect), token)
        for text in ("first", "second"):
            token.write_text(text + "\n")
            assert [each async for each in example.get(api, "/")] == [{}]
    assert seen == [b"Bearer first", b"Bearer second"]
