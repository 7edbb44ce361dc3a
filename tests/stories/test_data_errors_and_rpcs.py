"""Data errors of the control plane reach RPCs according to the bootstrap's server features (A53, A54, A88)."""

import pytest
import trio
from support.mesh import PLANE, Mesh, ask

import trxds
from trxds import RpcError, StatusCode
from trxds.testing import resources as xds

SWITCH = "GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING"


def channel(mesh, *features):
    bootstrap = xds.bootstrap(PLANE, features=features)
    return trxds.open_channel("xds:///shop", bootstrap=bootstrap, network=mesh.network)


async def refusal(caller):
    with pytest.raises(RpcError) as caught:
        await ask(caller)
    assert caught.value.status.code is StatusCode.UNAVAILABLE
    return caught.value.status.message


async def test_a_deleted_cluster_fails_rpcs(autojump_clock):
    async with Mesh.run() as mesh, channel(mesh) as caller:
        await ask(caller)
        mesh.plane.remove("CDS", "cart")
        await trio.sleep(1)
        assert "does not exist, deleted by the server" in await refusal(caller)


@pytest.mark.parametrize(("switch", "feature"), [("false", "ignore_resource_deletion"), ("true", "xds_v3")])
async def test_a_deleted_cluster_stays_in_use_if_deletions_are_ignored(autojump_clock, monkeypatch, switch, feature):
    monkeypatch.setenv(SWITCH, switch)
    async with Mesh.run() as mesh, channel(mesh, feature) as caller:
        await ask(caller)
        mesh.plane.remove("CDS", "cart")
        await trio.sleep(60)
        await ask(caller)


async def test_an_ignored_deletion_is_logged_once_and_so_is_the_return(autojump_clock, caplog):
    caplog.set_level("INFO", "trxds.xds")
    async with Mesh.run() as mesh, channel(mesh, "ignore_resource_deletion") as caller:
        await ask(caller)
        mesh.plane.remove("CDS", "cart")
        await mesh.plane.wait_for_ack("CDS")
        mesh.cluster("other")
        await mesh.plane.wait_for_ack("CDS", 2)
        mesh.cluster("cart")
        await mesh.plane.wait_for_ack("CDS")
    texts = [record.getMessage() for record in caplog.records]
    assert sum("the last one is kept" in text for text in texts) == 1
    assert texts[-1] == 'CDS resource "cart" is back'


async def test_an_ignored_deletion_that_is_no_longer_watched_is_logged(autojump_clock, caplog):
    caplog.set_level("INFO", "trxds.xds")
    async with Mesh.run() as mesh, channel(mesh, "ignore_resource_deletion") as caller:
        await ask(caller)
        mesh.plane.remove("CDS", "cart")
        await mesh.plane.wait_for_ack("CDS")
        mesh.cluster("other")
        mesh.endpoints("other", mesh.hosts)
        mesh.route("other")
        await trio.sleep(60)
    texts = [record.getMessage() for record in caplog.records]
    assert texts[-1] == 'CDS resource "cart", which the server deleted, is wanted no longer'


async def test_fail_on_data_errors_fails_rpcs_after_a_bad_update(autojump_clock, monkeypatch):
    monkeypatch.setenv(SWITCH, "true")
    async with Mesh.run() as mesh, channel(mesh, "fail_on_data_errors") as caller:
        await ask(caller)
        mesh.plane.put({**xds.cluster("cart"), "lb_policy": "MAGLEV"})
        await mesh.plane.wait_for_nack("CDS")
        await trio.sleep(1)
        assert 'CDS resource "cart"' in await refusal(caller)
        mesh.cluster("cart")
        await mesh.plane.wait_for_ack("CDS")
        await trio.sleep(1)
        await ask(caller)


async def test_a_resource_error_for_a_cluster_fails_rpcs_at_once_with_its_message(autojump_clock):
    async with Mesh.run() as mesh:
        mesh.plane.fail("CDS", "cart", StatusCode.PERMISSION_DENIED, "cart is not for web-1")
        async with channel(mesh) as caller:
            started = trio.current_time()
            assert "the server reports PERMISSION_DENIED: cart is not for web-1" in await refusal(caller)
            assert trio.current_time() - started < 1
            mesh.cluster("cart")
            await trio.sleep(1)
            await ask(caller)


async def test_the_resource_timer_is_30_seconds_with_resource_timer_is_transient_error(autojump_clock, monkeypatch):
    monkeypatch.setenv(SWITCH, "true")
    async with Mesh.run() as mesh:
        mesh.plane.withhold("CDS")
        async with channel(mesh, "resource_timer_is_transient_error") as caller:
            started = trio.current_time()
            assert "no answer, asked 30 s before" in await refusal(caller)
            assert 30 <= trio.current_time() - started < 31
            mesh.plane.release("CDS")
            await trio.sleep(1)
            await ask(caller)
