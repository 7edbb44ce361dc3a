"""The xDS test client in memory, and a test driver that asks it.

async with driven("--qps=10") as driver:
    stats = await driver.stats(20)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio
from support.mesh import Mesh

import trxds
from trxds import StatusCode
from trxds.interop import protos
from trxds.interop.xds_client import client_settings, main, run_client

CLIENT = "10.0.0.9:8081"


class TestServer:
    """`grpc.testing.TestService` as gRPC's xDS test server has it, with the behaviours that tests ask for."""

    __test__ = False

    def __init__(self, name: str, *, names_itself_in_headers: bool = True) -> None:
        self.name = name
        self.calls: list[tuple[Any, Any]] = []  # requests, and their calls
        self.code = StatusCode.OK  # with which calls end
        self._headers = [("hostname", name)] if names_itself_in_headers else []

    async def EmptyCall(self, request: Any, call: Any) -> Any:
        await self._answer(request, call)
        return protos.Empty()

    async def UnaryCall(self, request: Any, call: Any) -> Any:
        await self._answer(request, call)
        return protos.SimpleResponse(hostname=self.name, payload=protos.Payload(body=bytes(request.response_size)))

    async def _answer(self, request: Any, call: Any) -> None:
        self.calls.append((request, call))
        match call.metadata.first("rpc-behavior"):
            case "keep-open":
                await trio.sleep_forever()
            case str(behaviour) if behaviour.startswith("sleep-"):
                await trio.sleep(float(behaviour.removeprefix("sleep-")))
            case str(behaviour) if behaviour.startswith("error-code-"):
                call.abort(StatusCode(int(behaviour.removeprefix("error-code-"))), "as the metadata wants")
        await call.send_initial_metadata(self._headers)
        if self.code is not StatusCode.OK:
            call.abort(self.code, "as the test wants")


class Driver:
    """A test driver of a client, and the servers by their names."""

    def __init__(self, mesh: Mesh, channel: trxds.Channel, servers: dict[str, TestServer]) -> None:
        self.mesh = mesh
        self.channel = channel
        self.servers = servers
        self._stats = channel.stub(protos.STATS_SERVICE)
        self._configure = channel.stub(protos.CONFIGURE_SERVICE)

    async def stats(self, count: int, *, keys: Iterable[str] = (), timeout: int = 60) -> Any:
        """The statistics of the next RPCs."""
        request = protos.LoadBalancerStatsRequest(num_rpcs=count, timeout_sec=timeout, metadata_keys=keys)
        return await self._stats.GetClientStats(request)

    async def accumulated(self) -> Any:
        """The statistics of all RPCs."""
        return await self._stats.GetClientAccumulatedStats(protos.LoadBalancerAccumulatedStatsRequest())

    async def configure(self, *types: str, timeout: int = 0, **metadata: str) -> None:
        """Have the client send RPCs of these types, all with this metadata."""
        pairs = [(type, key.replace("_", "-"), value) for type in types for key, value in metadata.items()]
        request = protos.ClientConfigureRequest(types=types, timeout_sec=timeout)
        for type, key, value in pairs:
            request.metadata.add(type=type, key=key, value=value)
        await self._configure.Configure(request)

    @property
    def calls(self) -> list[tuple[Any, Any]]:
        """All requests that the servers have got, and their calls."""
        return [each for server in self.servers.values() for each in server.calls]


@asynccontextmanager
async def driven(
    *flags: str, hosts: int = 2, sessions: bool = False, roots: str = "", **server_options: Any
) -> AsyncIterator[Driver]:
    """A mesh of the test servers blue, red, ..., the client with these flags, and its driver.

    `roots` is the PEM file of the certificate provider "mesh".
    """
    async with Mesh.run(hosts, sessions=sessions) as mesh:
        servers = {}
        for name, host in zip(("blue", "red", "green"), mesh.servers.values(), strict=False):
            servers[name] = TestServer(name, **server_options)
            host.fallback = None
            host.add_service(protos.TEST_SERVICE, servers[name])
        listener = mesh.network.listen(CLIENT)
        flags_by_name = main.make_context("xds_client", ["--server=xds:///shop", *flags]).params
        del flags_by_name["stats_port"]
        settings = client_settings(**flags_by_name)
        async with (
            trio.open_nursery() as nursery,
            trxds.open_channel(f"ipv4:{CLIENT}", network=mesh.network) as channel,
        ):
            bootstrap = mesh.bootstrap
            if roots:
                provider = {"plugin_name": "file_watcher", "config": {"ca_certificate_file": roots}}
                bootstrap = {**bootstrap, "certificate_providers": {"mesh": provider}}
            run = partial(run_client, bootstrap=bootstrap, network=mesh.network)
            nursery.start_soon(run, settings, [listener])
            yield Driver(mesh, channel, servers)
            nursery.cancel_scope.cancel()
