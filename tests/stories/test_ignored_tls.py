"""A cluster that asks for TLS on a channel without `xds_credentials` says so (A29)."""

from __future__ import annotations

import logging
import ssl
from typing import Any

import pytest
import trustme
from support.mesh import METHOD, Mesh, ask, bidi
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds.testing import resources as xds

TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
REMEDY = "open the channel with credentials=trxds.xds_credentials(trxds.insecure())"


def secured(name: str = "cart", **fields: Any) -> dict[str, Any]:
    """Return a cluster that asks for TLS with the system's roots."""
    common = {"validation_context": {"system_root_certs": {}}}
    socket = {"name": "tls", "typed_config": {"@type": TLS, "common_tls_context": common, **fields}}
    return {**xds.cluster(name), "transport_socket": socket}


def tls_server() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("shop").configure_cert(context)
    context.set_alpn_protocols(["h2"])
    return context


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{each.levelname} {each.getMessage()}" for each in caplog.records if "TLS" in each.getMessage()]


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "trxds.client")
    return caplog


async def test_a_cluster_that_asks_for_tls_on_a_plain_channel_is_logged_with_the_remedy(autojump_clock, log) -> None:
    async with Mesh.run(1) as mesh:
        mesh.plane.put(secured())
        async with mesh.channel() as channel:
            await ask(channel)
            (line,) = told(log)
            assert line.startswith('WARNING xds:///shop: CDS resource "cart" (server ')
            assert "it asks for TLS, and its hosts are reached in plain text" in line and line.endswith(REMEDY)


async def test_a_call_whose_host_wants_tls_names_the_cluster_that_asks_for_it(autojump_clock) -> None:
    async with Mesh.run(0) as mesh:
        mesh.endpoints("cart", [await mesh.add_host(tls=tls_server())])
        mesh.plane.put(secured())
        async with mesh.channel() as channel:
            with pytest.raises(trxds.RpcError) as failed:
                await ask(channel)
            status = failed.value.status
            assert status.code is trxds.StatusCode.UNAVAILABLE and "does it speak TLS?" in status.message
            assert 'CDS resource "cart"' in status.note and status.note.endswith(REMEDY)


async def test_an_open_call_whose_next_attempt_finds_no_host_has_the_status_of_its_error(autojump_clock) -> None:
    async with Mesh.run(1) as mesh:
        mesh.plane.put(secured())
        route = xds.route("cart")
        route["route"]["retry_policy"] = {"retry_on": "unavailable"}
        mesh.route(route)
        async with mesh.channel() as channel, bidi(channel).open() as call:
            mesh.network.refuse(mesh.hosts[0])
            mesh.network.cut(mesh.hosts[0])
            with pytest.raises(trxds.RpcError) as failed:
                await call.receive()
            assert failed.value.status.note.endswith(REMEDY)
            assert call.status == failed.value.status


async def test_a_call_that_a_plain_host_fails_is_not_blamed_on_tls(autojump_clock) -> None:
    async def unavailable(call: Any) -> None:
        call.abort(trxds.StatusCode.UNAVAILABLE, "closed for today")

    async with Mesh.run(1) as mesh:
        mesh.plane.put(secured())
        mesh.servers[mesh.hosts[0]].handlers[METHOD] = unavailable
        async with mesh.channel() as channel:
            with pytest.raises(trxds.RpcError, match="closed for today") as failed:
                await ask(channel)
            assert failed.value.status.note == ""


async def test_a_cluster_that_asks_for_tls_in_vain_is_a_warning_of_the_channel(autojump_clock) -> None:
    async with Mesh.run(1) as mesh:
        mesh.plane.put(secured())
        async with mesh.channel() as channel:
            await ask(channel)
            (warning,) = channel.admin_view().warnings
            assert 'CDS resource "cart"' in warning and warning.endswith(REMEDY)
            mesh.plane.put(xds.cluster("cart"))
            await mesh.plane.wait_for_ack("CDS")
            await wait_all_tasks_blocked()
            assert channel.admin_view().warnings == ()


async def test_a_cluster_that_keeps_asking_for_tls_is_logged_once(autojump_clock, log) -> None:
    async with Mesh.run(1) as mesh:
        mesh.plane.put(secured())
        async with mesh.channel() as channel:
            await ask(channel)
            mesh.plane.put(secured(sni="cart.example"))
            await mesh.plane.wait_for_ack("CDS")
            await wait_all_tasks_blocked()
            assert len(told(log)) == 1


async def test_the_leaves_of_an_aggregate_that_ask_for_tls_are_named(autojump_clock, log) -> None:
    async with Mesh.run(1) as mesh:
        mesh.plane.put(secured("east"), xds.endpoints("east", xds.locality(mesh.hosts[0])))
        mesh.plane.put(xds.aggregate("cart", "east"))
        async with mesh.channel() as channel:
            await ask(channel)
            (line,) = told(log)
            assert 'CDS resource "east"' in line


async def test_a_channel_with_xds_credentials_has_nothing_to_say(autojump_clock, log) -> None:
    async with Mesh.run(1) as mesh:
        mesh.plane.put(secured())
        async with mesh.channel(credentials=trxds.xds_credentials(trxds.insecure())) as channel:
            with pytest.raises(trxds.RpcError, match="TLS with "):
                await ask(channel)
            assert (told(log), channel.admin_view().state.ignored_tls.warnings) == ([], ())


async def test_a_channel_with_tls_of_its_own_notes_at_info_whose_settings_apply(autojump_clock, log) -> None:
    async with Mesh.run(1) as mesh:
        mesh.plane.put(secured())
        async with mesh.channel(credentials=trxds.tls()) as channel:
            with pytest.raises(trxds.RpcError):
                await ask(channel)
            (line,) = told(log)
            assert line.startswith("INFO ") and "those of the channel's trxds.tls(...) apply" in line
            assert channel.admin_view().state.ignored_tls.warnings == ()
