"""A mesh of a real size for the page: 4 channels, 12 clusters, 600 sessions, hosts that fail and hosts that are slow.

All is in memory but the admin surface, which a browser has to reach. The program runs in a thread of its own, so that
many tests can look at one mesh: it takes a second to come up.

    with running() as program, ...:
        program.do(program.mesh.lose_control_plane)
"""

from __future__ import annotations

import random
from contextlib import AsyncExitStack, contextmanager, suppress
from queue import SimpleQueue
from threading import Thread

import trio

import trxds
import trxds.admin
from trxds.testing import MemoryNetwork, Server
from trxds.testing import resources as xds
from trxds.testing.management import ManagementServer

PLANE = "control-plane.mesh:18000"
CARTS = "outbound|443||cart-{}.shop.svc.cluster.local"  # as Istio names clusters: they differ in the middle alone
METHODS = {"shop": "/shop.v1.Cart/Add", "billing": "/billing.v1.Invoices/Issue", "search": "/search.v1.Search/Find"}
TARGETS = ("shop", "shop", "billing", "search")  # two channels have the same target
PACE = 0.02  # seconds between two calls of a task; 0 stops them
SESSIONS = (250, 100, 150, 100)  # by channel
SLOW, FAILING, SHARED = "10.0.1.9:50051", "10.0.1.10:50051", "10.0.1.1:50051"

# Hosts by cluster and priority; the numbers are those of hosts. Host 1 serves three clusters of two channels.
PLACES = {
    CARTS.format("v1"): [[1, 2, 3]],
    CARTS.format("v2"): [[4, 5]],
    "checkout": [[6, 7], [8]],
    "recommendations": [[9, 10]],
    "catalog-eu": [[11, 12], [13, 14]],
    "catalog-us": [[15, 16]],
    "invoices": [[17, 18, 1]],
    "payments": [[19], [20], [21, 1]],
    "ledger": [[22, 23]],
    "search-index": [[24, 25, 26, 27], [28]],
    "search-suggest": [[29, 30]],
}
AGGREGATES = {"catalog": ("catalog-eu", "catalog-us")}
ROUTES = {
    "shop": {
        "/shop.v1.Cart/": {CARTS.format("v1"): 80, CARTS.format("v2"): 20},
        "/shop.v1.Checkout/": "checkout",
        "/shop.v1.Catalog/": "catalog",
        "/shop.v1.Recommendations/": "recommendations",
    },
    "billing": {"/billing.v1.Invoices/": {"invoices": 90, "payments": 10}, "/billing.v1.Ledger/": "ledger"},
    "search": {"/search.v1.Search/": "search-index", "/search.v1.Suggest/": "search-suggest"},
}
OTHERS = {  # methods without sessions
    "shop": ("/shop.v1.Checkout/Pay", "/shop.v1.Catalog/List", "/shop.v1.Recommendations/List"),
    "billing": ("/billing.v1.Ledger/Book", "/billing.v1.Refunds/Issue"),  # there is no route to the second
    "search": ("/search.v1.Suggest/Complete",),
}


def host(number):
    return f"10.0.1.{number}:50051"


class BigMesh:
    """The control plane with its channels; `page` is the URL. Methods run in the mesh's thread."""

    def __init__(self, network, plane):
        self.network = network
        self.plane = plane
        self.channels = []
        self.sessions = []
        self.page = self.address = ""
        self.pace = PACE
        self.draining = set()
        self.removed = set()
        self._serving = trio.CancelScope()

    def push_all(self):
        for service, table in ROUTES.items():
            filters = [xds.stateful_session(f"{service}-session", path=METHODS[service])]
            self.plane.put(xds.listener(service, routes=f"{service}-routes", filters=filters))
            entries = [xds.route(to, prefix=prefix) for prefix, to in table.items()]
            self.plane.put(xds.routes(f"{service}-routes", *entries))
        for name in PLACES:
            self.plane.put(xds.cluster(name, override_statuses=("UNKNOWN", "HEALTHY", "DRAINING")))
            self.push_endpoints(name)
        for name, clusters in AGGREGATES.items():
            self.plane.put(xds.aggregate(name, *clusters))

    def push_endpoints(self, name):
        self.plane.put(xds.endpoints(name, *self._localities(name)))

    def _localities(self, name):
        for priority, numbers in enumerate(PLACES[name]):
            for zone in ("a", "b"):
                there = [host(each) for each in numbers if each % 2 == (zone == "b") and host(each) not in self.removed]
                if there:
                    health = dict.fromkeys(self.draining, "DRAINING")
                    yield xds.locality(*there, zone=f"europe-west1-{zone}", priority=priority, health=health)

    async def drain(self, address):
        self.draining.add(address)
        self._push_clusters_of(address)

    async def remove(self, address):
        self.removed.add(address)
        self._push_clusters_of(address)

    def _push_clusters_of(self, address):
        for name, priorities in PLACES.items():
            if any(host(number) == address for numbers in priorities for number in numbers):
                self.push_endpoints(name)

    async def refuse(self, name="ledger"):
        """Push a cluster that every gRPC client refuses."""
        self.plane.put({**xds.cluster(name), "lb_policy": "MAGLEV"})

    async def put(self, resource):
        self.plane.put(resource)

    # -- the control plane's life

    async def serve_plane(self, *, task_status=trio.TASK_STATUS_IGNORED):
        with trio.CancelScope() as self._serving:
            await Server(self.plane.handlers, address=PLANE, network=self.network).run(task_status=task_status)

    async def lose_control_plane(self):
        self._serving.cancel()

    async def find_control_plane(self):
        await self.nursery.start(self.serve_plane)

    # -- the program

    async def open_channels(self, stack):
        for target in TARGETS:
            options = {"bootstrap": xds.bootstrap(PLANE, node="web-1"), "network": self.network}
            self.channels.append(await stack.enter_async_context(trxds.open_channel(f"xds:///{target}", **options)))
        for channel, target, number in zip(self.channels, TARGETS, SESSIONS, strict=True):
            opened = [await stack.enter_async_context(channel.session()) for _ in range(number)]
            self.sessions += [(session, METHODS[target]) for session in opened]

    async def meet_hosts(self):
        """Every session makes its first call."""
        waiting = list(self.sessions)

        async def meet():
            while waiting:
                session, method = waiting.pop()
                with suppress(trxds.RpcError):
                    await session.method(method)(b"")

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(meet)

    async def call(self, seed):
        """Sessions and others, in turn and at random."""
        drawn = random.Random(seed)
        while True:
            await trio.sleep(self.pace or 0.1)
            if not self.pace:
                continue
            with suppress(trxds.RpcError):
                if drawn.random() < 0.6:
                    session, method = drawn.choice(self.sessions)
                    await session.method(method)(b"", metadata=[("user", "7")], timeout=2)
                else:
                    number = drawn.randrange(len(TARGETS))
                    method = drawn.choice(OTHERS[TARGETS[number]])
                    await self.channels[number].method(method)(b"", timeout=2)


async def answer_as(address):
    async def answer(call):
        async for _ in call:
            if address == FAILING:
                call.abort(trxds.StatusCode.UNAVAILABLE, "the database is read-only")
            if address == SLOW:
                await trio.sleep(0.25)
            await call.send(address.encode())

    return answer


async def run(started: SimpleQueue, **options):
    """Run the mesh until `program.stop`; `started` gets it, or the exception that ended it before."""
    network, plane = MemoryNetwork(), ManagementServer()
    mesh = BigMesh(network, plane)
    mesh.push_all()
    async with trio.open_nursery() as nursery:
        mesh.nursery = nursery
        await nursery.start(mesh.serve_plane)
        for number in sorted({each for places in PLACES.values() for numbers in places for each in numbers}):
            address = host(number)
            await nursery.start(Server(fallback=await answer_as(address), address=address, network=network).run)
        async with AsyncExitStack() as stack:
            await mesh.open_channels(stack)
            await mesh.meet_hosts()
            mesh.address = await stack.enter_async_context(trxds.admin.serve(*mesh.channels, **options))
            mesh.page = trxds.admin.page_url(mesh.address)
            mesh.over = trio.Event()
            async with trio.open_nursery() as callers:
                callers.start_soon(mesh.call, 1)
                callers.start_soon(mesh.call, 2)
                started.put((mesh, trio.lowlevel.current_trio_token()))
                await mesh.over.wait()
                callers.cancel_scope.cancel()
        nursery.cancel_scope.cancel()


class Program:
    """The mesh from another thread."""

    def __init__(self, mesh, token):
        self.mesh = mesh
        self.page = mesh.page
        self.address = mesh.address
        self._token = token

    def do(self, method, *arguments):
        """Run an async method of the mesh in its thread, and wait for it."""
        return trio.from_thread.run(method, *arguments, trio_token=self._token)


@contextmanager
def running(**options):
    started: SimpleQueue = SimpleQueue()

    def work():
        try:
            trio.run(lambda: run(started, **options))
        except BaseException as error:
            started.put(error)
            raise

    thread = Thread(target=work, name="big mesh")
    thread.start()
    found = started.get()
    if isinstance(found, BaseException):
        raise found
    mesh, token = found
    try:
        yield Program(mesh, token)
    finally:
        trio.from_thread.run_sync(mesh.over.set, trio_token=token)
        thread.join()
