"""The demo's shop with its page: what the browser's tests and the screenshots look at."""

from contextlib import asynccontextmanager
from functools import partial

import trio
from msgspec import structs

import trxds
import trxds.admin
from trxds.cli.demo.mesh import METHOD, SERVICE, Mesh
from trxds.cli.demo.shop import Shop, open_backends
from trxds.testing.resources import bootstrap


class OpenShop:
    """`sessions` and `strangers` call all the time; `page` has the address."""

    def __init__(self, shop, channel, page):
        self.shop = shop
        self.channel = channel
        self.page = page

    @property
    def hosts(self):
        return self.shop.mesh.hosts

    async def drain(self, host):
        await self.shop.become(structs.replace(self.shop.mesh, draining=self.shop.mesh.draining | {host.name}))

    async def remove(self, host):
        await self.shop.become(structs.replace(self.shop.mesh, removed=self.shop.mesh.removed | {host.name}))

    def push(self, resource):
        """What the shop's control plane would not say by itself."""
        self.shop._plane.put(resource)

    async def customer(self, pace):
        async with self.channel.session() as session:
            await self._buy(session, pace)

    async def stranger(self, pace):
        await self._buy(self.channel, pace)

    async def _buy(self, caller, pace):
        add = caller.method(METHOD, None, None)
        while True:
            await add(b"item", wait_for_ready=True, metadata=[("user", "7")])
            await trio.sleep(pace)


@asynccontextmanager
async def open_shop(sessions=6, strangers=2, pace=0.05, **options):
    """All on loopback; every session has met its host."""
    async with open_backends() as hosts, trio.open_nursery() as nursery:
        shop = Shop(Mesh(hosts))
        address = await nursery.start(shop.serve)
        async with (
            trxds.open_channel(f"xds:///{SERVICE}", bootstrap=bootstrap(address, node="demo")) as channel,
            trxds.admin.serve(channel, **options) as address,
            trio.open_nursery() as customers,
        ):
            it = OpenShop(shop, channel, trxds.admin.page_url(address))
            for _ in range(sessions):
                customers.start_soon(partial(it.customer, pace))
            for _ in range(strangers):
                customers.start_soon(partial(it.stranger, pace))
            yield it
            customers.cancel_scope.cancel()
        nursery.cancel_scope.cancel()
