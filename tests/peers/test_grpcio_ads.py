"""ADS with grpcio at the other end: our client against its server, its stub against our ManagementServer."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

import grpc
import trio

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.resource_update import ResourceUpdate
from trxds.lb.load_report.load_store import LoadStore
from trxds.resources import protos
from trxds.resources.context import ParseContext
from trxds.resources.types import CDS, EDS
from trxds.testing import resources
from trxds.testing.management import ManagementServer
from trxds.transport.connect import TcpNetwork
from trxds.xds.bootstrap import Bootstrap, Node, ServerConfig
from trxds.xds.sotw import PATH
from trxds.xds.xds_client import XdsClient

END = object()


class Plane(grpc.GenericRpcHandler):  # type: ignore[misc]
    """A control plane by hand: a test reads what `heard` holds and puts what it wants said into `to_say`."""

    def __init__(self) -> None:
        self.heard: queue.Queue[Any] = queue.Queue()
        self.to_say: queue.Queue[Any] = queue.Queue()

    def service(self, details: Any) -> Any:
        if details.method != PATH:
            return None
        return grpc.stream_stream_rpc_method_handler(
            self._converse, protos.DiscoveryRequest.FromString, protos.DiscoveryResponse.SerializeToString
        )

    def _converse(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        reader = futures.ThreadPoolExecutor(1)
        reader.submit(self._listen, requests)
        reader.shutdown(wait=False)
        while (response := self.to_say.get()) is not END and context.is_active():
            if response is not None:
                yield response

    def _listen(self, requests: Iterator[Any]) -> None:
        with suppress(grpc.RpcError):
            for request in requests:
                self.heard.put(request)
        self.to_say.put(None)  # wakes the other half, which sees that the stream is over

    async def hears(self) -> Any:
        return await trio.to_thread.run_sync(lambda: self.heard.get(timeout=60))

    def says(self, version: str, nonce: str, *items: dict[str, Any]) -> None:
        packed = [protos.from_json(item) for item in items]
        self.to_say.put(
            protos.DiscoveryResponse(type_url=packed[0].type_url, version_info=version, nonce=nonce, resources=packed)
        )


@contextmanager
def serving(plane: Plane) -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[plane])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        plane.to_say.put(END)
        server.stop(None).wait(5)


def said(request: Any) -> tuple[str, str, list[str], str]:
    return request.version_info, request.response_nonce, list(request.resource_names), request.error_detail.message


async def read(updates: ConflatingQueue[ResourceUpdate], states: list[ResourceUpdate]) -> None:
    """A watcher that keeps up; without one the client reads no further."""
    while True:
        states += (await updates.next()).values()


async def test_our_client_and_a_grpcio_server_agree_on_a_conversation() -> None:
    plane, updates, states = Plane(), ConflatingQueue[ResourceUpdate](), list[ResourceUpdate]()
    with serving(plane) as address, trio.fail_after(60):
        bootstrap = Bootstrap(servers=(ServerConfig(address),), node=Node("web-1", metadata={"team": ["shop", 7.0]}))
        client = XdsClient(bootstrap, TcpNetwork(), Random(), ParseContext(), LoadStore())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.run)
            nursery.start_soon(read, updates, states)
            client.watch(CDS, "cart", updates, "cart")

            first = await plane.hears()
            assert said(first) == ("", "", ["cart"], "")
            assert (first.node.id, first.node.metadata["team"][1]) == ("web-1", 7.0)

            plane.says("1", "a", resources.cluster("cart"))
            assert said(await plane.hears()) == ("1", "a", ["cart"], "")

            plane.says("2", "b", {**resources.cluster("cart"), "lb_policy": "MAGLEV"})
            version, nonce, _, error = said(await plane.hears())
            assert (version, nonce) == ("1", "b")
            assert "field:lb_policy error:" in error
            assert [(state.value is not None, state.ambient is not None) for state in states] == [
                (True, False),
                (True, True),
            ]
            nursery.cancel_scope.cancel()


async def test_our_client_returns_when_a_grpcio_server_ends_the_stream() -> None:
    plane, updates, states = Plane(), ConflatingQueue[ResourceUpdate](), list[ResourceUpdate]()
    with serving(plane) as address, trio.fail_after(60):
        client = XdsClient(
            Bootstrap(servers=(ServerConfig(address),)), TcpNetwork(), Random(), ParseContext(), LoadStore()
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.run)
            nursery.start_soon(read, updates, states)
            client.watch(CDS, "cart", updates, "cart")
            await plane.hears()
            plane.says("1", "a", resources.cluster("cart"))
            await plane.hears()
            plane.to_say.put(END)
            assert said(await plane.hears()) == ("1", "", ["cart"], "")
            assert len(states) == 1
            nursery.cancel_scope.cancel()


class Stub:
    """A bare ADS stream of grpcio, in threads of its own."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._requests: queue.Queue[Any] = queue.Queue()
        method = channel.stream_stream(
            PATH, protos.DiscoveryRequest.SerializeToString, protos.DiscoveryResponse.FromString
        )
        self._responses = method(iter(self._requests.get, END), timeout=60)

    def says(self, **fields: Any) -> None:
        self._requests.put(protos.DiscoveryRequest(**fields))

    async def hears(self) -> Any:
        return await trio.to_thread.run_sync(next, self._responses, END)

    def ends(self) -> None:
        self._requests.put(END)


async def test_our_management_server_and_a_grpcio_stub_agree_on_a_conversation() -> None:
    plane = ManagementServer()
    plane.put(resources.endpoints("cart", resources.locality("127.0.0.1:1")))
    async with plane.serve() as address:
        with trio.fail_after(60), grpc.insecure_channel(address) as channel:
            stub = Stub(channel)
            stub.says(type_url=EDS.type_url, resource_names=["cart", "other"], node=protos.Node(id="peer"))
            response = await stub.hears()
            assert (response.version_info, response.type_url, len(response.resources)) == ("1", EDS.type_url, 1)

            stub.says(
                type_url=EDS.type_url, resource_names=["cart", "other"], version_info="1", response_nonce=response.nonce
            )
            assert str(await plane.wait_for_ack("EDS")) == "ACK EDS v=1 cart,other"
            assert plane.requests[0].node.id == "peer"

            big = [resources.locality(*(f"10.{n}.{m}.1:80" for m in range(200)), zone=f"z{n}") for n in range(20)]
            plane.put(resources.endpoints("other", *big))
            response = await stub.hears()
            assert response.ByteSize() > 80_000
            stub.ends()
            assert await stub.hears() is END
            await plane.wait_for_streams(0)
