"""A client comes before its control plane over TLS and with a token, and slow files delay nobody."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
import trio.testing
import trustme
from support.credential_documents import PLANE, jwt, server, tls

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.resource_update import ResourceUpdate
from trxds.lb.load_report.load_store import LoadStore
from trxds.resources.types import LDS, ParseContext
from trxds.testing import ManagementServer, MemoryNetwork, resources, serve
from trxds.transport.certificates import CertificateFiles
from trxds.transport.tls import context_source
from trxds.xds.authorization import fetch_authorization
from trxds.xds.bootstrap import ServerConfig, parse
from trxds.xds.channel_credentials import JwtTokenFile
from trxds.xds.xds_client import XdsClient


@pytest.fixture
def pem(ca: trustme.CA, tmp_path: Path) -> Callable[[str], str]:
    """The path of a PEM file: "ca", or a client's "cert" or "key"."""
    leaf = ca.issue_cert("client.example")
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    leaf.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    leaf.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    return lambda name: str(tmp_path / f"{name}.pem")


def context_for_servers(ca: trustme.CA, *, mutual: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("plane.example").configure_cert(context)
    context.set_alpn_protocols(["h2"])
    if mutual:
        ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def listener_from(document: Any, context: ssl.SSLContext) -> tuple[ResourceUpdate, list[Any]]:
    """The state of the Listener "shop" that a client of that bootstrap gets first, and the calls the server had."""
    network, plane = MemoryNetwork(), ManagementServer()
    plane.put(resources.listener("shop", routes="r"))
    handlers = {"/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources": plane.handle}
    client = XdsClient(parse(document), network, Random(1), ParseContext(), LoadStore())
    queue: ConflatingQueue[ResourceUpdate] = ConflatingQueue()
    async with serve(handlers, address=PLANE, network=network, tls=context) as xds, trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        client.watch(LDS, "shop", queue, "listener")
        state = (await queue.next())["listener"]
        nursery.cancel_scope.cancel()
    return state, xds.calls


async def test_resources_come_over_tls(ca, pem, autojump_clock) -> None:
    state, _ = await listener_from(server(tls(ca_certificate_file=pem("ca"))), context_for_servers(ca))
    assert state.value is not None


async def test_the_management_server_may_ask_for_tls(ca, pem, autojump_clock) -> None:
    network, plane = MemoryNetwork(), ManagementServer()
    plane.put(resources.listener("shop", routes="r"))
    document = server(tls(ca_certificate_file=pem("ca")))
    client = XdsClient(parse(document), network, Random(1), ParseContext(), LoadStore())
    queue = ConflatingQueue[ResourceUpdate]()
    async with plane.serve(PLANE, network, tls=context_for_servers(ca)), trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        client.watch(LDS, "shop", queue, "listener")
        assert (await queue.next())["listener"].value is not None
        nursery.cancel_scope.cancel()


# Files that take their time are pipes here: whoever opens one waits until somebody writes.


async def test_a_slow_token_file_delays_no_other_task(tmp_path: Path) -> None:
    pipe = tmp_path / "token"
    os.mkfifo(pipe)
    found: list[Any] = []

    async def read() -> None:
        found.extend(await fetch_authorization(ServerConfig(PLANE, call_credentials=(JwtTokenFile(str(pipe)),))))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            assert found == [], "we are here, and the token is not"
            await trio.Path(pipe).write_text(jwt(exp=1))
    assert found == [(b"authorization", f"Bearer {jwt(exp=1)}".encode())]


async def test_slow_certificate_files_delay_no_other_task_and_are_read_once(ca, pem, tmp_path: Path) -> None:
    pipe = tmp_path / "roots"
    os.mkfifo(pipe)
    next_context = context_source(CertificateFiles(roots=str(pipe)))
    found: list[ssl.SSLContext] = []

    async def wait() -> None:
        found.append(await next_context())

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert found == []
            await trio.Path(pipe).write_bytes(ca.cert_pem.bytes())
    assert len(found) == 3 and len(set(map(id, found))) == 1


async def test_a_task_that_waits_for_a_slow_file_can_be_cancelled(tmp_path: Path) -> None:
    pipe = tmp_path / "token"
    os.mkfifo(pipe)
    with trio.fail_after(10), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            credentials = (JwtTokenFile(str(pipe)),)
            nursery.start_soon(fetch_authorization, ServerConfig(PLANE, call_credentials=credentials))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    os.close(os.open(pipe, os.O_WRONLY))  # and so is the thread


async def test_resources_come_over_mutual_tls(ca, pem, autojump_clock) -> None:
    config = {"ca_certificate_file": pem("ca"), "certificate_file": pem("cert"), "private_key_file": pem("key")}
    state, _ = await listener_from(server(tls(**config)), context_for_servers(ca, mutual=True))
    assert state.value is not None


async def test_a_control_plane_that_cannot_be_trusted_is_named_in_the_error(pem, autojump_clock) -> None:
    state, _ = await listener_from(server(tls(ca_certificate_file=pem("ca"))), context_for_servers(trustme.CA()))
    assert state.error is not None
    assert "TLS with plane.example:443 as 'plane.example': certificate verify failed: " in state.error.message


async def test_each_ads_stream_has_the_token_in_its_metadata(ca, pem, tmp_path, autojump_clock) -> None:
    token = tmp_path / "token"
    token.write_text(jwt(exp=1))
    creds = [{"type": "jwt_token_file", "config": {"jwt_token_file": str(token)}}]
    document = server(tls(ca_certificate_file=pem("ca")), call_creds=creds)
    _, calls = await listener_from(document, context_for_servers(ca))
    assert calls[0].metadata.first("authorization") == f"Bearer {jwt(exp=1)}"


async def test_each_ads_stream_has_the_present_token_and_roots(ca, pem, tmp_path, autojump_clock) -> None:
    token = tmp_path / "token"
    token.write_text(jwt(exp=1))
    creds = [{"type": "jwt_token_file", "config": {"jwt_token_file": str(token)}}]
    roots = tls(ca_certificate_file=pem("ca"), refresh_interval="1s")
    network, plane, queue = MemoryNetwork(), ManagementServer(), ConflatingQueue[ResourceUpdate]()
    plane.put(resources.listener("shop", routes="r"))
    client = XdsClient(parse(server(roots, call_creds=creds)), network, Random(1), ParseContext(), LoadStore())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        client.watch(LDS, "shop", queue, "listener")
        async with serve(plane.handlers, address=PLANE, network=network, tls=context_for_servers(ca)) as before:
            await plane.wait_for_ack("LDS")
        token.write_text(jwt(exp=2))
        renewed = trustme.CA()
        renewed.cert_pem.write_to_path(pem("ca"))
        async with serve(plane.handlers, address=PLANE, network=network, tls=context_for_servers(renewed)) as after:
            await plane.wait_for(lambda request: request.stream == 2)
        nursery.cancel_scope.cancel()
    tokens = [xds.calls[0].metadata.first("authorization") for xds in (before, after)]
    assert tokens == [f"Bearer {jwt(exp=1)}", f"Bearer {jwt(exp=2)}"]


async def test_no_ads_stream_begins_without_its_token(ca, pem, autojump_clock) -> None:
    creds = [{"type": "jwt_token_file", "config": {"jwt_token_file": "/none"}}]
    document = server(tls(ca_certificate_file=pem("ca")), call_creds=creds)
    state, calls = await listener_from(document, context_for_servers(ca))
    assert state.error is not None
    text = "jwt_token_file /none cannot be read: No such file or directory; check the server's credentials in"
    assert text in state.error.message
    assert calls == []


async def test_a_token_that_takes_longer_than_20_seconds_is_named_in_the_error(pem, tmp_path, mock_clock) -> None:
    pipe = tmp_path / "token"
    os.mkfifo(pipe)
    creds = [{"type": "jwt_token_file", "config": {"jwt_token_file": str(pipe)}}]
    client = XdsClient(
        parse(server(tls(ca_certificate_file=pem("ca")), call_creds=creds)),
        MemoryNetwork(),
        Random(1),
        ParseContext(),
        LoadStore(),
    )
    queue = ConflatingQueue[ResourceUpdate]()
    client.watch(LDS, "shop", queue, "listener")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(20)
        error = (await queue.next())["listener"].error
        nursery.cancel_scope.cancel()
    os.close(os.open(pipe, os.O_WRONLY))  # and so the thread ends
    assert error is not None
    assert "no token within 20 s; check the server's credentials in the bootstrap" in error.message
