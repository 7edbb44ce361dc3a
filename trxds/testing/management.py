"""A `ManagementServer` is a control plane for tests and demos: an ADS server, in memory or over TCP.

    plane = ManagementServer()
    plane.put(resources.listener("shop", routes="r"), resources.routes("r", ...), ...)
    async with plane.serve() as address:
        ...
        plane.put(resources.cluster("cart", ...))
        await plane.wait_for_ack("CDS")

It serves both protocol variants, state of the world and delta, and sends a response only if something has changed.
`requests` records everything that clients send. The resources outlive `serve`, so leaving and entering it again is a
restart of the server.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import trio
from google.protobuf.message import Message
from msgspec import Struct

from trxds.core.conflating_queue import ConflatingQueue
from trxds.resources import protos
from trxds.resources.types import RESOURCE_TYPES
from trxds.server.server import serve
from trxds.server.server_call import Call, Handler

from .canonical_any import canonical
from .load import PATH as LOAD_PATH
from .load import LoadReportingService
from .network import MemoryNetwork
from .snapshots import Snapshots
from .subscriptions import TYPE_URLS, Delta, Entry, StateOfTheWorld, Subscriptions

T = TypeVar("T")

_SERVICE = "/envoy.service.discovery.v3.AggregatedDiscoveryService"
PATH = f"{_SERVICE}/StreamAggregatedResources"
DELTA_PATH = f"{_SERVICE}/DeltaAggregatedResources"

_KINDS = {type.type_url: type.kind for type in RESOURCE_TYPES.values()}
_MESSAGES = {
    "LDS": protos.Listener,
    "RDS": protos.RouteConfiguration,
    "CDS": protos.Cluster,
    "EDS": protos.ClusterLoadAssignment,
}
# Clusters before the resources that refer to them, as the xDS protocol advises ("make before break").
_PUSH_ORDER = ("CDS", "EDS", "LDS", "RDS")


class Request(Struct, frozen=True):
    """A `Request` is one request as received. `kind` is "LDS", "RDS", "CDS" or "EDS", or the type URL of another type.

    `names` are all names that the stream subscribes to from now on. A delta request has no `version`, and a nonce only
    if it is an ACK or NACK.
    """

    kind: str
    version: str
    nonce: str
    names: tuple[str, ...]
    node: Any  # the Node message, or None
    error: str | None  # error_detail's message
    error_code: int
    stream: int  # which stream, counted from 1
    at: float  # seconds on Trio's clock

    @property
    def answer(self) -> str:
        """Return "SUBSCRIBE" (no nonce yet), "ACK" or "NACK"; a changed subscription looks like an ACK."""
        if self.error is not None:
            return "NACK"
        return "ACK" if self.nonce else "SUBSCRIBE"

    def __str__(self) -> str:
        version = f" v={self.version}" if self.version else ""
        return f"{self.answer} {self.kind}{version} {','.join(sorted(self.names))}".rstrip()


class Response(Struct, frozen=True):
    """A `Response` is one response as sent."""

    kind: str
    version: int
    nonce: str
    names: tuple[str, ...]
    stream: int


@dataclass(slots=True, eq=False)
class _Stream:
    """One client's ADS stream, in one of the two protocol variants."""

    number: int
    subscriptions: Subscriptions
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    wake_ups: ConflatingQueue[None] = field(default_factory=ConflatingQueue)


class _ByKind(dict[str, T]):
    """A value for each kind of resources; `ValueError` for another kind."""

    def __missing__(self, kind: str) -> NoReturn:
        raise ValueError(f"there are no resources of the kind {kind!r}; the kinds are {', '.join(self)}")


class ManagementServer:
    """A management server serves its resources to every ADS stream; `requests` and `responses` are the record.

    `load` is its load reporting service. With `snapshots` it serves state of the world as go-control-plane's snapshot
    cache does (`trxds/testing/snapshots.py`).
    """

    def __init__(self, *, snapshots: bool = False) -> None:
        self._snapshots = snapshots
        self.requests: list[Request] = []
        self.responses: list[Response] = []
        self.load = LoadReportingService()
        self._resources = _ByKind[dict[str, Entry]]({kind: {} for kind in TYPE_URLS})
        self._versions = _ByKind[int](dict.fromkeys(TYPE_URLS, 0))
        self._withheld: set[str] = set()
        self._streams: list[_Stream] = []
        self._opened = 0
        self._activity = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(resources)} {kind}" for kind, resources in self._resources.items())
        return f"<ManagementServer {counts}, {len(self._streams)} streams>"

    # -- resources

    def put(self, *resources: Mapping[str, Any] | Any) -> None:
        """Add or replace resources, and push the changes.

        Each is a message (a Listener, RouteConfiguration, Cluster or ClusterLoadAssignment), an Any of one,
        or a dict in proto-JSON form with `@type`; `ValueError` names the resource and the field that is wrong.
        Resources of one type in one call are one new version and one response.
        """
        changed: dict[str, dict[str, protos.AnyProto]] = {kind: {} for kind in TYPE_URLS}
        for resource in resources:
            kind, name, packed = _packed(resource)
            changed[kind][name] = packed
        for kind, found in changed.items():
            if found:
                self._resources[kind].update(found)
        self._changed(*(kind for kind, found in changed.items() if found))

    def remove(self, kind: str, *names: str) -> None:
        """Remove resources of that kind ("LDS", "RDS", "CDS" or "EDS"); `KeyError` if one is not there."""
        present = self._resources[kind]
        for name in names:
            if name not in present:
                raise KeyError(f"there is no {kind} resource {name!r}; there are {', '.join(present) or 'none'}")
        for name in names:
            present.pop(name, None)
        self._changed(kind)

    def fail(self, kind: str, name: str, code: int, message: str) -> None:
        """Replace the resource by an error (xRFC TP3), until it is put again; `code` is a google.rpc.Code."""
        detail = protos.Status(code=code, message=message)
        self._resources[kind][name] = protos.ResourceError(
            resource_name=protos.ResourceName(name=name), error_detail=detail
        )
        self._changed(kind)

    def _changed(self, *kinds: str) -> None:
        # A snapshot of go-control-plane has one version for all types.
        for kind in self._versions if self._snapshots and kinds else kinds:
            self._versions[kind] += 1
        self._push()

    def withhold(self, kind: str) -> None:
        """Send no responses of that kind, until `release`."""
        self.version(kind)  # raises for a kind that there is not
        self._withheld.add(kind)

    def release(self, kind: str) -> None:
        """Send the responses of that kind again, including the withheld one."""
        self.version(kind)  # raises for a kind that there is not
        self._withheld.discard(kind)
        self._push()

    def version(self, kind: str) -> int:
        """Return the present version of that kind; it begins at 0 and grows by 1 with each change."""
        return self._versions[kind]

    # -- serving

    @asynccontextmanager
    async def serve(
        self, address: str = "127.0.0.1:0", network: MemoryNetwork | None = None, *, tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[str]:
        """Listen while the block runs: on TCP, or at any address of an in-memory network. Yields the address.

        With `tls`, a context for servers, clients must use TLS. `OSError` if the address cannot be listened on.
        """
        async with serve(self.handlers, address=address, network=network, tls=tls, remember_calls=False) as server:
            yield server.address

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of its methods, for a server that has other methods too."""
        return {PATH: self.handle, DELTA_PATH: self.handle, LOAD_PATH: self.load.handle}

    async def handle(self, call: Call) -> None:
        """Serve one ADS stream, in the protocol variant of the method's path."""
        self._opened += 1
        stream = _Stream(self._opened, self._subscriptions(call.path))
        self._streams.append(stream)
        self._activity.unpark_all()
        try:
            with stream.scope:
                await self._run_stream(stream, call)
        finally:
            self._streams.remove(stream)
            self._activity.unpark_all()

    def _subscriptions(self, path: str) -> Subscriptions:
        if path == DELTA_PATH:
            return Delta()
        return Snapshots() if self._snapshots else StateOfTheWorld()

    def drop_streams(self) -> None:
        """End every ADS stream with OK, and keep listening."""
        for stream in self._streams:
            stream.scope.cancel()

    @property
    def streams(self) -> int:
        """Return the number of open ADS streams."""
        return len(self._streams)

    async def _run_stream(self, stream: _Stream, call: Call) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, stream, call, name=f"management/{stream.number}/send")
            async for message in call:
                self._record(stream, stream.subscriptions.request.FromString(message))
            nursery.cancel_scope.cancel()

    async def _send(self, stream: _Stream, call: Call) -> None:
        while True:
            for kind in _PUSH_ORDER:
                response = self._next_response(stream, kind)
                if response is not None:
                    await call.send(response.SerializeToString())
            await stream.wake_ups.next()

    def _push(self) -> None:
        for stream in self._streams:
            stream.wake_ups.put("push", None)

    def _next_response(self, stream: _Stream, kind: str) -> Any | None:
        if kind in self._withheld:
            return None
        # Numbered over all streams, so that `_refers_to` finds the response of a nonce.
        nonce = f"n{len(self.responses) + 1}"
        sending = stream.subscriptions.next_response(kind, self._resources[kind], self._versions[kind], nonce)
        if sending is None:
            return None
        self.responses.append(Response(kind, self._versions[kind], nonce, sending.names, stream.number))
        return sending.message

    def _record(self, stream: _Stream, message: Any) -> None:
        kind = _KINDS.get(message.type_url, message.type_url)
        names = stream.subscriptions.handle_request(kind, message)
        self.requests.append(_request(message, kind, names, stream.number))
        self._activity.unpark_all()
        if kind in TYPE_URLS:
            stream.wake_ups.put("request", None)

    # -- waiting for requests

    async def wait_for(self, wanted: Callable[[Request], bool]) -> Request:
        """Return the first request, past or future, for which `wanted` is true. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        looked = 0
        while True:
            for request in self.requests[looked:]:
                if wanted(request):
                    return request
            looked = len(self.requests)
            await self._activity.park()

    async def wait_for_ack(self, kind: str, version: int | None = None) -> Request:
        """Wait for the ACK of that version (the present one if None) or a newer one, and return it."""
        return await self._wait_for_answer("ACK", kind, version)

    async def wait_for_nack(self, kind: str, version: int | None = None) -> Request:
        """Wait for the NACK of that version (the present one if None) or a newer one; `.error` is its message."""
        return await self._wait_for_answer("NACK", kind, version)

    async def wait_for_streams(self, count: int) -> None:
        """Wait until exactly `count` ADS streams are open. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while len(self._streams) != count:
            await self._activity.park()

    async def _wait_for_answer(self, answer: str, kind: str, version: int | None) -> Request:
        """Wait for an ACK or NACK of a version."""
        wanted = self._versions[kind] if version is None else version

        # By nonce, because a NACK has the version that was accepted before, not the rejected one.
        def answers(request: Request) -> bool:
            return request.answer == answer and request.kind == kind and self._refers_to(request) >= wanted

        return await self.wait_for(answers)

    def _refers_to(self, request: Request) -> int:
        """Return the version of the response that a request answers; nonces count the responses from 1."""
        number = request.nonce.removeprefix("n")
        return self.responses[int(number) - 1].version if number.isdecimal() else -1


def _request(message: Any, kind: str, names: tuple[str, ...], stream: int) -> Request:
    failed = message.HasField("error_detail")
    return Request(
        kind=kind,
        version=getattr(message, "version_info", ""),
        nonce=message.response_nonce,
        names=names,
        node=message.node if message.HasField("node") else None,
        error=message.error_detail.message if failed else None,
        error_code=message.error_detail.code if failed else 0,
        stream=stream,
        at=trio.current_time(),
    )


def _packed(resource: Any) -> tuple[str, str, protos.AnyProto]:
    """Return the kind, name and Any of a resource in one of the forms that `put` takes."""
    if isinstance(resource, Mapping):
        try:
            resource = canonical(protos.from_json(resource))
        except ValueError as error:
            name = resource.get("name") or resource.get("cluster_name") or resource.get("clusterName")
            raise ValueError(f"resource {name!r}: {error}" if name else str(error)) from None
    if not isinstance(resource, Message):
        hint = "; spread it, put(*resources)" if isinstance(resource, list | tuple) else ""
        raise TypeError(f"put takes messages, and dicts with @type, and no {type(resource).__name__}{hint}")
    packed = resource if isinstance(resource, protos.AnyProto) else protos.pack(resource)
    kind = _KINDS.get(packed.type_url)
    if kind is None:
        raise ValueError(
            f"{packed.type_url or 'a resource without @type'} is not served; the types are {', '.join(_KINDS)}"
        )
    message = _MESSAGES[kind].FromString(packed.value)
    return kind, message.cluster_name if kind == "EDS" else message.name, packed
