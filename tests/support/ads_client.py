"""A bare ADS stream to a ManagementServer, for tests of what the server sends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from trxds.resources import protos
from trxds.resources.types import CDS, EDS, LDS, ResourceType
from trxds.testing import MemoryNetwork
from trxds.testing.management import ManagementServer
from trxds.transport.client_stream import ClientStream
from trxds.transport.connection import Connection
from trxds.transport.request import Request
from trxds.xds.sotw import PATH

PLANE = "plane:1"


class Client:
    """A bare ADS stream that says just what a test wants."""

    def __init__(self, stream: ClientStream) -> None:
        self.stream = stream

    async def says(self, type: ResourceType, *names: str, nonce: str = "", version: str = "", error: str = "") -> None:
        request = protos.DiscoveryRequest(
            type_url=type.type_url, resource_names=names, response_nonce=nonce, version_info=version
        )
        request.node.id = "n"
        if error:
            request.error_detail.message = error
        await self.stream.send(request.SerializeToString())

    async def hears(self) -> str:
        """The next response, as `kind version nonce names`."""
        message = await self.stream.receive()
        assert message is not None, self.stream.status
        response = protos.DiscoveryResponse.FromString(message)
        type = next(type for type in (LDS, CDS, EDS) if type.type_url == response.type_url)
        names = ",".join(_name(type, resource) for resource in response.resources)
        return f"{type.kind} {response.version_info} {response.nonce} {names}".rstrip()

    async def hears_nothing(self) -> None:
        await wait_all_tasks_blocked()
        assert self.stream.receive_nowait() is None


def _name(type: ResourceType, resource: Any) -> str:
    if type is EDS:
        return str(protos.ClusterLoadAssignment.FromString(resource.value).cluster_name)
    return str((protos.Cluster if type is CDS else protos.Listener).FromString(resource.value).name)


@asynccontextmanager
async def connected(plane: ManagementServer) -> AsyncIterator[Client]:
    network = MemoryNetwork()
    async with plane.serve(PLANE, network) as address, trio.open_nursery() as nursery:
        connection = Connection(await network.connect(address), peer=address)
        nursery.start_soon(connection.run)
        stream = connection.open_stream(Request(path=PATH, authority=address))
        assert stream is not None
        yield Client(stream)
        stream.cancel()
        nursery.cancel_scope.cancel()
