"""A service on asyncio: users stay on their hosts through a drain, and a request that is given up harms no other."""

from __future__ import annotations

import asyncio

from support.asyncio_tests import in_asyncio
from support.shop_on_loopback import ShopOnLoopback

import trxds.aio
from trxds.testing import resources as xds

USERS = [f"user {number}" for number in range(12)]


async def add_to_cart(pool, user):
    """Serve one request of a user; return the host that had it."""
    async with pool.session(user) as session:
        _, call = await session.method("/shop.Cart/Echo").with_call(user.encode(), timeout=20)
        return call.peer


async def look_at_cart(pool, user):
    """Serve a request that never ends."""
    async with pool.session(user) as session, session.method("/shop.Cart/Hang").open(b"") as call:
        await call.receive()


@in_asyncio
async def test_users_of_an_asyncio_service_stay_on_their_hosts_while_one_drains():
    with ShopOnLoopback.run() as shop:
        shop.put(xds.cluster("cart", override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"]))
        async with (
            trxds.aio.open_channel("xds:///shop", **shop.options({})) as channel,
            channel.sessions(max=100) as pool,
            channel.session() as admin,
        ):
            # Twelve requests at once: each user gets a host.
            hosts = dict(zip(USERS, await asyncio.gather(*(add_to_cart(pool, user) for user in USERS)), strict=True))
            assert set(hosts.values()) == shop.hosts
            await admin.method("/shop.Cart/Echo")(b"")

            # A user goes away in the middle of a request.
            looking = asyncio.create_task(look_at_cart(pool, USERS[0]))
            await asyncio.to_thread(shop.wait, shop.began)
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            assert looking.cancelled()
            await asyncio.to_thread(shop.wait, shop.ended)

            # A host drains. Its users stay, and a new one goes to the other host.
            shop.put(xds.endpoints("cart", xds.locality(*shop.hosts, health={admin.host: "DRAINING"})))
            assert (await admin.wait_draining()).host.host == admin.host
            again = await asyncio.gather(*(add_to_cart(pool, user) for user in USERS))
            assert dict(zip(USERS, again, strict=True)) == hosts
            assert await add_to_cart(pool, "a new user") in shop.hosts - {admin.host}
