"""TLS of hosts changes, and sessions of calls and of TLS go on (A29, A82)."""

from __future__ import annotations

import pytest
import trio
import trio.testing
import trustme
from support import pinned
from support.mesh import Mesh, ask, method
from support.secured import EMAIL, asked_names, by, one_host, provider, secured_cluster, server_tls, xds_channel

import trxds
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow


# -- changes


async def test_a_cluster_that_switches_to_tls_fails_no_rpc(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        plain = await one_host(mesh, None)
        async with xds_channel(mesh, pem) as channel:
            assert await ask(channel) == plain
            safe = await mesh.add_host(tls=server_tls(ca, "cart"))
            mesh.endpoints("cart", [plain, safe])
            secured_cluster(mesh, by())
            while await ask(channel) == plain:
                pass
            assert {await ask(channel) for _ in range(5)} == {safe}


async def test_a_changed_tls_config_makes_new_connections(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "cart"))
        secured_cluster(mesh, by())
        async with xds_channel(mesh, pem) as channel:
            await ask(channel)
            secured_cluster(mesh, by(names=[{"exact": "depot"}]))
            await mesh.plane.wait_for_ack("CDS")
            while mesh.servers[address].connections:
                with pytest.raises(trxds.RpcError):
                    while True:
                        await method(channel)(b"", timeout=5)


async def test_a_pinned_call_that_waits_goes_by_the_new_tls_config(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "cart"))
        secured_cluster(mesh, by(names=[{"exact": "depot"}]))  # which the host does not prove
        async with xds_channel(mesh, pem) as channel, trio.open_nursery() as nursery:
            (host,) = await pinned.listed(channel)
            found = []

            async def wait() -> None:
                found.append(await pinned.ask(host, channel, wait_for_ready=True))

            nursery.start_soon(wait)
            await trio.sleep(10)
            assert not found
            secured_cluster(mesh, by())
            await trio.sleep(60)
            assert found == [address]
            assert len(channel._pool.subchannels) == 1, "the one with the old config is released"


async def test_clusters_with_different_tls_configs_share_no_connection_to_an_address(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, server_tls(ca, "cart"))
        mesh.cluster("depot")
        mesh.endpoints("depot", [address])
        secured_cluster(mesh, by(), "cart")
        secured_cluster(mesh, by(sni="depot.example"), "depot")
        mesh.route({"cart": 50, "depot": 50})
        async with xds_channel(mesh, pem) as channel:
            for _ in range(30):
                assert await ask(channel) == address
            assert len(mesh.servers[address].connections) == 2


async def test_rotated_certificate_files_are_read_for_the_next_connection(ca, pem, autojump_clock) -> None:
    fresh = trustme.CA()
    async with Mesh.run(hosts=0) as mesh:
        first = await one_host(mesh, server_tls(ca, "cart"))
        secured_cluster(mesh, by(roots="rotating"))
        rotating = provider(ca_certificate_file=pem("ca"), refresh_interval="60s")
        async with xds_channel(mesh, pem, rotating=rotating) as channel:
            assert await ask(channel) == first
            fresh.cert_pem.write_to_path(pem("ca"))
            autojump_clock.jump(60)
            second = await one_host(mesh, server_tls(fresh, "cart"))
            while await ask(channel) == first:
                pass
            assert await ask(channel) == second


async def test_a_session_over_tls_stays_on_its_draining_host(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        hosts = [await mesh.add_host(tls=server_tls(ca, "cart")) for _ in range(3)]
        mesh.endpoints("cart", hosts)
        cluster = xds.cluster("cart", override_statuses=["HEALTHY", "DRAINING"])
        mesh.plane.put(cluster | {"transport_socket": by()})
        async with xds_channel(mesh, pem) as channel, channel.session() as session:
            mine = await ask(session)
            mesh.endpoints("cart", xds.locality(*hosts, health={mine: "DRAINING"}))
            await mesh.plane.wait_for_ack("EDS")
            assert {await ask(session) for _ in range(6)} == {mine}
            assert len(mesh.servers[mine].connections) == 1


async def test_a_session_in_another_leaf_of_an_aggregate_uses_the_tls_of_that_leaf(ca, pem, autojump_clock) -> None:
    contexts = [server_tls(ca, "cart") for _ in range(2)]
    names = [asked_names(context) for context in contexts]
    async with Mesh.run(hosts=0) as mesh:
        hosts = [await mesh.add_host(tls=context) for context in contexts]
        for cluster, host in zip("xy", hosts, strict=True):
            secured_cluster(mesh, by(sni=f"{cluster}.example"), cluster)
            mesh.endpoints(cluster, [host])
        mesh.plane.put(xds.aggregate("both", "x", "y"))
        mesh.route("both")
        cookie = [("cookie", f"session={encode(hosts[1], 'both')}")]
        async with xds_channel(mesh, pem, sticky_aggregates=True) as channel:
            assert [await ask(channel), await ask(channel, metadata=cookie)] == hosts
    assert names == [["x.example"], ["y.example"]]


# -- sessions of TLS, which spare the next connection a full handshake


async def handshakes(mesh: Mesh, ca: trustme.CA, **options) -> tuple[int, int]:
    """Return how many handshakes a host had for two connections of a channel, and how many of them were resumed."""
    context = server_tls(ca, "shop")
    address = await one_host(mesh, context)
    credentials = trxds.tls(roots=ca.cert_pem.bytes(), **options)
    async with mesh.channel(credentials=credentials) as channel:
        await ask(channel)
        await trio.sleep(60)
        mesh.servers[address].goaway()
        await trio.testing.wait_all_tasks_blocked()
        assert await ask(channel) == address
    stats = context.session_stats()
    return stats["accept_good"], stats["hits"]


async def test_a_connection_after_a_goaway_resumes_the_tls_session(ca, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        assert await handshakes(mesh, ca) == (2, 1)


async def test_a_tls_session_is_not_resumed_after_the_files_were_read_again(ca, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        assert await handshakes(mesh, ca, refresh_interval=30) == (2, 0)


async def test_a_resumed_session_is_checked_for_the_names_that_the_cluster_allows(ca, pem, autojump_clock) -> None:
    context = server_tls(ca, EMAIL)
    async with Mesh.run(hosts=0) as mesh:
        address = await one_host(mesh, context)
        secured_cluster(mesh, by(names=[{"exact": EMAIL}]))
        async with xds_channel(mesh, pem) as channel:
            await ask(channel)
            mesh.servers[address].goaway()
            await trio.sleep(60)
            assert await ask(channel) == address
            assert context.session_stats()["hits"] == 1


async def test_a_pinned_call_reaches_its_host_by_its_clusters_tls_only(ca, pem, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        tls = server_tls(ca, "cart.mesh")
        names = asked_names(tls)
        address = await one_host(mesh, tls)
        secured_cluster(mesh, by(names=[{"exact": "cart.mesh"}]))
        async with xds_channel(mesh, pem) as channel:
            (host,) = [each async for each in channel.hosts()]
            assert (await method(channel).on(host)(b"")).decode() == address
            assert len(names) == 1
            secured_cluster(mesh, by(names=[{"exact": "other.mesh"}]))
            await trio.sleep(1)
            with pytest.raises(trxds.RpcError, match="pinned to host"):
                await method(channel).on(host)(b"", timeout=5)
