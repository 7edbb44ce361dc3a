"""Subchannels are shared by address and by the security that their users require."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connectivity import Connectivity
from trxds.testing import MemoryNetwork, serve
from trxds.transport.options import WireOptions
from trxds.transport.pool import SubchannelPool

ADDRESS = "10.0.0.1:443"


class Networks:
    """Makes a network for each security; all reach the same hosts."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.network = network
        self.asked: list[Hashable] = []

    def of(self, security: Hashable) -> MemoryNetwork:
        self.asked.append(security)
        return self.network


@pytest.fixture
def networks() -> Networks:
    return Networks(MemoryNetwork())


@pytest.fixture
def pool(networks: Networks) -> SubchannelPool:
    return SubchannelPool(networks.network, WireOptions(), Random(1), networks.of)


async def test_equal_security_shares_a_subchannel(pool: SubchannelPool, networks: Networks) -> None:
    one, other = (pool.for_policies.with_security(lambda address: "tls") for _ in range(2))
    assert one.lease(ADDRESS, ConflatingQueue()).subchannel is other.lease(ADDRESS, ConflatingQueue()).subchannel
    assert networks.asked == ["tls"]


async def test_different_security_means_another_subchannel(pool: SubchannelPool) -> None:
    plain, tls = (
        pool.for_policies.lease(ADDRESS, ConflatingQueue()),
        pool.for_policies.with_security(lambda address: "tls").lease(ADDRESS, ConflatingQueue()),
    )
    assert plain.subchannel is not tls.subchannel
    assert pool.subchannels.keys() == {(ADDRESS, None), (ADDRESS, "tls")}


async def test_security_may_differ_from_address_to_address(pool: SubchannelPool) -> None:
    hosts = pool.for_policies.with_security(lambda address: address.partition(":")[2])
    for port in (1, 2):
        hosts.lease(f"10.0.0.1:{port}", ConflatingQueue())
    assert pool.subchannels.keys() == {("10.0.0.1:1", "1"), ("10.0.0.1:2", "2")}


async def test_a_lookup_finds_only_subchannels_of_the_same_security(pool: SubchannelPool) -> None:
    tls = pool.for_policies.with_security(lambda address: "tls")
    lease = tls.lease(ADDRESS, ConflatingQueue())
    assert (pool.for_policies.lookup(ADDRESS), tls.lookup(ADDRESS)) == (None, lease.subchannel)


async def test_a_host_without_security_uses_the_pools_network(pool: SubchannelPool, networks: Networks) -> None:
    pool.for_policies.with_security(lambda address: None).lease(ADDRESS, ConflatingQueue())
    assert networks.asked == [] and pool.for_policies.lookup(ADDRESS) is not None


def test_a_pool_without_secured_networks_ignores_security() -> None:
    pool = SubchannelPool(MemoryNetwork(), WireOptions(), Random(1))
    assert pool.for_policies.with_security(lambda address: "tls") is pool.for_policies


async def test_the_last_release_retires_only_the_subchannel_of_its_security(pool: SubchannelPool) -> None:
    plain, tls = (
        pool.for_policies.lease(ADDRESS, ConflatingQueue()),
        pool.for_policies.with_security(lambda address: "tls").lease(ADDRESS, ConflatingQueue()),
    )
    tls.release()
    assert pool.subchannels == {(ADDRESS, None): plain.subchannel}


async def test_a_secured_subchannel_posts_states_to_its_own_users_only(
    pool: SubchannelPool, networks: Networks, nursery: trio.Nursery
) -> None:
    mine: ConflatingQueue[object] = ConflatingQueue()
    others: ConflatingQueue[object] = ConflatingQueue()
    heard: list[object] = []

    async def listen() -> None:
        while True:
            heard.append(await others.next())

    nursery.start_soon(pool.run)
    nursery.start_soon(listen)
    async with serve(address=ADDRESS, network=networks.network):
        pool.for_policies.lease(ADDRESS, others)
        lease = pool.for_policies.with_security(lambda address: "tls").lease(ADDRESS, mine)
        lease.subchannel.request_connection()
        while lease.subchannel.state is not Connectivity.READY:
            assert await mine.next() == {("host", ADDRESS): lease.subchannel}
        await wait_all_tasks_blocked()
        assert heard == []
        nursery.cancel_scope.cancel()
