"""Find the pods of a Kubernetes Service by its EndpointSlices, with a resolver of the program's own.

Unlike DNS, a watch tells of a new pod at once, and of one that is going down: such a pod keeps its sessions and gets no
new ones. In a cluster use `kubernetes_resolver(in_cluster())`; the service account needs `list` and `watch` of
`endpointslices` in the group `discovery.k8s.io`. Here a stand-in answers for the API server, and a rollout takes place:

    python examples/kubernetes_resolver.py
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import h11
import trio

import trxds
from trxds.resolvers import Endpoint, HealthStatus, Resolver, ResolverArgs, ResolverUpdate
from trxds.testing import Call, serve, unary

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MAX_LINE = 16 * 2**20  # bytes of one event
WHERE = "/shop.Cart/Where"
ROUND_ROBIN: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}


# -- the resolver


@dataclass(frozen=True)
class ApiServer:
    """An API server: its name for HTTP, a function that connects to it, and the file with the account's token."""

    host: str
    connect: Callable[[], Awaitable[trio.abc.Stream]]
    token_file: Path | None = None


def in_cluster() -> ApiServer:
    """Return the API server of the cluster that this program runs in."""
    tls = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
    connect = partial(trio.open_ssl_over_tcp_stream, host, port, ssl_context=tls, https_compatible=True)
    return ApiServer(host, connect, ACCOUNT / "token")


def kubernetes_resolver(api: ApiServer) -> Resolver:
    """Return a resolver of targets `k8s:///NAMESPACE/SERVICE:PORT`, where PORT is a name or a number."""

    async def resolve(args: ResolverArgs) -> AsyncIterator[ResolverUpdate]:
        namespace, _, service = args.target.path.partition("/")
        service, _, port = service.partition(":")
        path = f"/apis/discovery.k8s.io/v1/namespaces/{quote(namespace)}/endpointslices"
        query = f"labelSelector=kubernetes.io/service-name%3D{quote(service)}"
        while True:
            # A list, and then the changes to it, until they begin too far back and a new list is needed.
            async with aclosing(get(api, f"{path}?{query}")) as answer:
                listed = await anext(answer)
            slices = {item["metadata"]["name"]: item for item in listed["items"]}
            version = listed["metadata"]["resourceVersion"]
            yield update_of(slices, port)
            while version:
                watch = f"{path}?{query}&watch=1&allowWatchBookmarks=true&resourceVersion={version}"
                async with aclosing(get(api, watch)) as events:
                    async for event in events:
                        version = apply(event, slices)
                        if event["type"] not in ("BOOKMARK", "ERROR"):
                            yield update_of(slices, port)
                await trio.sleep(1)  # a server that ends each watch at once must not be asked without a pause

    return resolve


def apply(event: dict[str, Any], slices: dict[str, Any]) -> str:
    """Apply an event of a watch; return the version to go on from, empty if a new list is needed."""
    item = event["object"]
    if event["type"] == "ERROR":  # the version is too old: 410 Gone
        return ""
    if event["type"] == "DELETED":
        slices.pop(item["metadata"]["name"], None)
    elif event["type"] != "BOOKMARK":
        slices[item["metadata"]["name"]] = item
    return str(item["metadata"]["resourceVersion"])


def update_of(slices: dict[str, Any], port: str) -> ResolverUpdate:
    """Return the endpoints in all slices of a Service."""
    endpoints = []
    for item in slices.values():
        number = next(
            (each["port"] for each in item["ports"] or () if port in (each.get("name"), str(each["port"]))), 0
        )
        if number and item["addressType"] in ("IPv4", "IPv6"):
            endpoints += [found for pod in item["endpoints"] or () if (found := endpoint_of(pod, number)) is not None]
    return ResolverUpdate(endpoints, note=f"no EndpointSlice has a serving pod with the port {port}")


def endpoint_of(pod: dict[str, Any], port: int) -> Endpoint | None:
    """Return the endpoint of a pod; None if it does not serve."""
    conditions = pod.get("conditions", {})
    if conditions.get("ready", True):
        health = HealthStatus.HEALTHY
    elif conditions.get("serving") and conditions.get("terminating"):
        health = HealthStatus.DRAINING  # it finishes what it has: sessions stay, and nobody new comes
    else:
        return None
    address = pod["addresses"][0]  # the API has only one that means anything
    address = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    attributes = {"zone": pod.get("zone", ""), "pod": pod.get("targetRef", {}).get("name", "")}
    return Endpoint((address,), health, hostname=pod.get("hostname", ""), attributes=attributes)


async def get(api: ApiServer, path: str) -> AsyncGenerator[Any, None]:
    """Yield each JSON document of the answer, one in a line; `OSError` if there is no good answer."""
    headers = [("host", api.host), ("accept", "application/json"), ("connection", "close")]
    if api.token_file is not None:
        headers.append(("authorization", f"Bearer {api.token_file.read_text().strip()}"))  # a new one comes each hour
    http = h11.Connection(h11.CLIENT)
    head = http.send(h11.Request(method="GET", target=path, headers=headers)) or b""
    async with await api.connect() as stream:
        await stream.send_all(head + (http.send(h11.EndOfMessage()) or b""))
        try:
            rest = b""
            while not isinstance(event := http.next_event(), h11.EndOfMessage):
                if event is h11.NEED_DATA:
                    http.receive_data(bytes(await stream.receive_some()))
                elif isinstance(event, h11.Response) and event.status_code != 200:
                    raise OSError(f"the API server answers GET {path.partition('?')[0]} with {event.status_code}")
                elif isinstance(event, h11.Data):
                    *lines, rest = (rest + bytes(event.data)).split(b"\n")
                    for line in filter(None, lines):
                        yield json.loads(line)
                    if len(rest) > MAX_LINE:
                        raise OSError(f"the API server sends an event of more than {MAX_LINE} bytes")
        except (trio.BrokenResourceError, h11.RemoteProtocolError) as error:
            raise OSError(f"the connection to the API server broke: {error}") from error
        if rest:
            yield json.loads(rest)


# -- a stand-in for a cluster, and a rollout in it


Slices = dict[str, dict[str, Any]]


@dataclass
class Cluster:
    """The EndpointSlices of one Service: one for each pod, because here each has a port of its own."""

    history: list[Slices] = field(default_factory=lambda: [{}])  # by resource version
    requests: list[str] = field(default_factory=list)
    changed: trio.Event = field(default_factory=trio.Event)

    def set(self, pod: str, **conditions: bool) -> None:
        """Change the conditions of the pod at `IP:port`, or delete it if there are none."""
        slices, name, (ip, _, port) = dict(self.history[-1]), f"cart-{pod}", pod.partition(":")
        slices.pop(name, None)
        if conditions:
            slices[name] = {
                "metadata": {"name": name, "resourceVersion": str(len(self.history))},
                "addressType": "IPv4",
                "ports": [{"name": "grpc", "port": int(port)}],
                "endpoints": [{"addresses": [ip], "conditions": conditions}],
            }
        self.history.append(slices)
        changed, self.changed = self.changed, trio.Event()
        changed.set()

    async def answer(self, stream: trio.abc.Stream) -> None:
        """Answer one request: a list, or a watch of what changes from then on."""
        http = h11.Connection(h11.SERVER)
        while not isinstance(event := http.next_event(), h11.Request):
            http.receive_data(bytes(await stream.receive_some()))
        self.requests.append(event.target.decode())

        async def send(event: h11.Event) -> None:
            await stream.send_all(http.send(event) or b"")

        async with stream:
            await send(h11.Response(status_code=200, headers=[("transfer-encoding", "chunked")]))
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # the resolver has left
                _, watches, version = self.requests[-1].partition("&resourceVersion=")
                if watches:
                    await self.watch(int(version), lambda it: send(h11.Data(data=json.dumps(it).encode() + b"\n")))
                listed = {"resourceVersion": str(len(self.history) - 1)}
                items = {"metadata": listed, "items": list(self.history[-1].values())}
                await send(h11.Data(data=json.dumps(items).encode()))
                await send(h11.EndOfMessage())

    async def watch(self, version: int, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        """Send each change after that version, for ever."""
        while True:
            if version == len(self.history) - 1:
                await self.changed.wait()
            known, now = self.history[version : version + 2]
            version += 1
            for name in known.keys() - now.keys():
                gone = {"name": name, "resourceVersion": str(version)}
                await send({"type": "DELETED", "object": {**known[name], "metadata": gone}})
            for name, item in now.items():
                if item != known.get(name):
                    await send({"type": "MODIFIED" if name in known else "ADDED", "object": item})


async def main() -> None:
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        cluster = Cluster()
        listening = partial(trio.serve_tcp, cluster.answer, 0, host="127.0.0.1")
        (listener,) = await nursery.start(listening)
        port = listener.socket.getsockname()[1]
        resolver = kubernetes_resolver(ApiServer("localhost", partial(trio.open_tcp_stream, "127.0.0.1", port)))
        pods = [await stack.enter_async_context(serve({WHERE: unary(where)})) for _ in range(3)]
        for pod in pods[:2]:
            cluster.set(pod.address, ready=True)
        options: dict[str, Any] = {"service_config": ROUND_ROBIN, "affinity": trxds.CookieAffinity("cart")}
        async with trxds.open_channel("k8s:///shop/cart:grpc", resolvers={"k8s": resolver}, **options) as channel:
            await met(channel, 2)
            print("1. two pods get calls")
            cluster.set(pods[2].address, ready=True)
            await met(channel, 3)
            print("2. a third pod gets calls as soon as it is ready")
            async with channel.session() as session:
                await session.method(WHERE)(b"")
                assert session.host is not None
                first, events = session.host, session.events()
                cluster.set(first, ready=False, serving=True, terminating=True)
                await anext(events)
                await session.method(WHERE)(b"")
                print(f"3. a pod that goes down keeps its session: {session.host == first}")
                print(f"4. and gets no other calls: {first not in await met(channel, 2)}")
                cluster.set(first)
                await anext(events)
                while session.host == first:  # calls of this moment may still go to a pod that is about to leave
                    await session.method(WHERE)(b"")
                print(f"5. when it is gone, the session moves: {session.host != first}")
        nursery.cancel_scope.cancel()


async def met(channel: trxds.Channel, count: int) -> set[str]:
    """Call until so many pods were met, and a few times more; return them."""
    hosts: set[str] = set()
    calls = 0
    while len(hosts) < count or calls < 10:
        _, done = await channel.method(WHERE).with_call(b"", wait_for_ready=True)
        hosts.add(done.peer)
        calls += 1
    return hosts


async def where(request: bytes, call: Call) -> bytes:
    """A pod's method."""
    return b"here"


if __name__ == "__main__":
    trio.run(main)
