"""The resources of a target, from its control plane, and those of a running program, by CSDS (A40)."""

from __future__ import annotations

import errno
import os

import trio

from trxds.admin.csds import SERVICE
from trxds.admin.protos import ClientStatusRequest, ClientStatusResponse
from trxds.cli.own_bootstrap import own_bootstrap
from trxds.cli.running.access import Access
from trxds.cli.running.program import Program, UnreachableError
from trxds.client.open_channel import open_channel
from trxds.core.observe import Locate, Observer, XdsResource
from trxds.core.plural import plural
from trxds.core.status import RpcError, StatusCode
from trxds.resources import protos
from trxds.resources.types import RESOURCE_TYPES
from trxds.transport.connect import Network
from trxds.transport.transport_credentials import INSECURE
from trxds.xds.bootstrap import Bootstrap

from .redaction import NamedResource

_QUIET = 0.5  # seconds without a new resource, after which all that the target needs are there


class RecordError(Exception):
    """The resources could not be had; the message says why."""


class _ControlPlanesOnly:
    """A network in which the control planes can be reached and hosts cannot: recording calls nobody."""

    def __init__(self, network: Network, bootstrap: Bootstrap) -> None:
        servers = [*bootstrap.servers, *(each for one in bootstrap.authorities.values() for each in one.servers)]
        self._network = network
        self._addresses = {server.address for server in servers if not server.files}

    async def connect(self, address: str) -> trio.abc.Stream:
        if address in self._addresses:
            return await self._network.connect(address)
        await trio.lowlevel.checkpoint()
        raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        return await self._network.resolve(host, port)


class _Arrivals(Observer):
    """Notes when a resource last changed; it is also the `Telemetry` that makes it."""

    def __init__(self) -> None:
        self.last = trio.current_time()

    def observe(self, target: str, locate: Locate) -> Observer:
        return self

    def xds_resource(self, resource: XdsResource) -> None:
        self.last = trio.current_time()


async def from_control_plane(bootstrap: Bootstrap, target: str, network: Network, within: float) -> list[NamedResource]:
    """Return the resources that a client of the target gets. Raises `RecordError` if they do not come in time."""
    arrivals = _Arrivals()
    only, own = _ControlPlanesOnly(network, bootstrap), own_bootstrap(target, bootstrap)
    found: list[NamedResource] = []
    missing: list[str] = []
    with trio.move_on_after(within):
        async with open_channel(target, bootstrap=own, network=only, telemetry=arrivals) as channel:
            client = channel.admin_view().client
            assert client is not None
            while not found or missing or trio.current_time() - arrivals.last < _QUIET:
                await trio.sleep(_QUIET / 5)
                found = [
                    _named(each.name, *each.accepted.raw) for each in client.resources if each.accepted is not None
                ]
                waiting = (each for each in client.resources if each.accepted is None and each.failed is None)
                missing = [f'{each.type.kind} resource "{each.name}"' for each in waiting]
    if not found:
        raise RecordError(f"{target}: its resources did not come within {within:g} s; is there such a target?")
    if missing:
        more = f" and {plural(len(missing) - 1, 'more resource')}" if missing[1:] else ""
        remedy = "what the control plane does not have is left out after 15 s (--within 20s)"
        raise RecordError(f"{target}: {missing[0]}{more} did not come within {within:g} s; {remedy}")
    return found


async def from_program(address: str, access: Access) -> list[NamedResource]:
    """Return the resources of all channels of the program with that admin address, the newest last.

    Raises `RecordError`.
    """
    try:
        connection = await Program(address, access).connect()
    except UnreachableError as error:
        raise RecordError(str(error)) from None
    await connection.aclose()
    target = address if address.startswith("unix:") else f"dns:///{address}"
    metadata = [("authorization", f"Bearer {access.token}")] if access.token else []
    async with open_channel(target, credentials=access.tls or INSECURE, max_receive_size=1 << 30) as channel:
        fetch = channel.method(f"{SERVICE}/FetchClientStatus", ClientStatusRequest, ClientStatusResponse)
        try:
            answer = await fetch(ClientStatusRequest(), metadata=metadata, timeout=10)
        except RpcError as error:
            if error.status.code is StatusCode.UNAUTHENTICATED:
                raise RecordError(f"{address}: {access.refusal}") from None
            elsewhere = "; is it the address of admin=?" if error.status.code is StatusCode.UNAVAILABLE else ""
            raise RecordError(f"{address}: {error.status}{elsewhere}") from None
    configs = [each for client in answer.config for each in client.generic_xds_configs]
    configs.sort(key=lambda each: (each.last_updated.seconds, each.last_updated.nanos))
    return [
        _named(each.name, each.xds_config.type_url, each.xds_config.value)
        for each in configs
        if each.HasField("xds_config") and each.xds_config.type_url in RESOURCE_TYPES
    ]


def _named(name: str, type_url: str, value: bytes) -> NamedResource:
    return name, protos.AnyProto(type_url=type_url, value=value)
