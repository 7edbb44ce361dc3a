"""The shop's servers: six backends and a control plane on loopback, and the functions that make a step happen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import trio
from msgspec import structs

from trxds.testing import Call, ManagementServer, serve, unary
from trxds.testing.resources import Resource

from .mesh import HOSTS, METHOD, Host, Mesh

KINDS = {"Listener": "LDS", "RouteConfiguration": "RDS", "Cluster": "CDS", "ClusterLoadAssignment": "EDS"}


@asynccontextmanager
async def open_backends() -> AsyncIterator[tuple[Host, ...]]:
    """Serve the backends; the value is the hosts with their addresses. Each backend answers with its own name."""
    async with AsyncExitStack() as stack:
        hosts = []
        for host in HOSTS:
            server = await stack.enter_async_context(serve({METHOD: unary(_answer(host.name.encode()))}))
            hosts.append(structs.replace(host, address=server.address))
        yield tuple(hosts)


def _answer(name: bytes) -> Callable[[bytes, Call], Awaitable[bytes]]:
    async def answer(request: bytes, call: Call) -> bytes:
        return name

    return answer


class Shop:
    """The control plane, and the mesh that it serves now."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._plane = ManagementServer()
        self._plane.put(*mesh.resources())
        self._restart = trio.Event()

    async def serve(self, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled, at the same address after each restart."""
        async with self._plane.serve() as address:
            task_status.started(address)
            await self._restart.wait()
        while True:
            self._restart = trio.Event()
            async with self._plane.serve(address):
                await self._restart.wait()

    async def become(self, mesh: Mesh) -> None:
        """Push the changed resources, and wait until the client has acknowledged them."""
        changed = [resource for resource in mesh.resources() if resource not in self.mesh.resources()]
        self.mesh = mesh
        self._plane.put(*changed)
        for kind in {_kind_of(resource) for resource in changed}:
            await self._plane.wait_for_ack(kind)

    async def restart(self) -> None:
        """Close the listener and every stream, and wait until the client is back."""
        self._restart.set()
        await self._plane.wait_for_streams(0)
        await self._plane.wait_for_streams(1)


def _kind_of(resource: Resource) -> str:
    return KINDS[resource["@type"].rpartition(".")[2]]
