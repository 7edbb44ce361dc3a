"""How a client comes before its control plane: what the bootstrap says of it, and ADS over TLS and with a token."""

from __future__ import annotations

import base64
import json
import os
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
import trio
import trio.testing
import trustme

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import BootstrapError
from trxds.lb.load_report.load_store import LoadStore
from trxds.resources.types import LDS, ParseContext
from trxds.testing import ManagementServer, MemoryNetwork, resources, serve
from trxds.transport.certificates import CertificateFiles
from trxds.transport.tls import TlsNetwork, context_source
from trxds.transport.transport_credentials import Insecure, Tls
from trxds.xds import channel_credentials
from trxds.xds.authorization import fetch_authorization, read_token
from trxds.xds.bootstrap import Bootstrap, ServerConfig, parse
from trxds.xds.channel_credentials import GoogleDefault, JwtTokenFile
from trxds.xds.xds_client import XdsClient

PLANE = "plane.example:443"


def server(*creds: Any, **fields: Any) -> dict[str, Any]:
    return {"xds_servers": [{"server_uri": PLANE, "channel_creds": list(creds), **fields}], "node": {"id": "web-1"}}


def tls(**config: Any) -> dict[str, Any]:
    return {"type": "tls", "config": config}


def only(document: Any) -> ServerConfig:
    (found,) = parse(document).servers
    return found


def problem(document: Any) -> str:
    with pytest.raises(BootstrapError) as caught:
        parse(document)
    return str(caught.value).removeprefix("bootstrap: xds_servers[0].")


# -- the bootstrap


def test_tls_needs_no_config() -> None:
    assert only(server({"type": "tls"})).credentials == Tls(CertificateFiles())


def test_all_fields_of_tls_credentials_are_read() -> None:
    config = {
        "ca_certificate_file": "/ca.pem",
        "certificate_file": "/cert.pem",
        "private_key_file": "/key.pem",
        "refresh_interval": "1.5s",
    }
    assert only(server(tls(**config))).credentials == Tls(CertificateFiles("/ca.pem", "/cert.pem", "/key.pem", 1.5))


@pytest.mark.parametrize(
    ("here", "missing"), [("certificate_file", "private_key_file"), ("private_key_file", "certificate_file")]
)
def test_a_certificate_and_its_key_come_together(here: str, missing: str) -> None:
    assert problem(server(tls(**{here: "/a.pem"}))) == (
        f"channel_creds[0].config.{missing}: is missing; {here} is set, and each needs the other"
    )


@pytest.mark.parametrize("interval", ["600", "0s", "-1s", "1m", "", "0.0000000001s"])
def test_an_interval_is_seconds_as_protobuf_writes_them(interval: str) -> None:
    assert problem(server(tls(refresh_interval=interval))) == (
        f'channel_creds[0].config.refresh_interval: is {interval!r}; write seconds such as "600s"'
    )


def test_an_interval_must_be_a_string() -> None:
    assert problem(server(tls(refresh_interval=600))).endswith('is a number; write a string such as "600s"')


def test_every_config_that_we_know_must_be_right_whichever_is_used() -> None:
    text = problem(server({"type": "insecure"}, tls(ca_certificate_file=1)))
    assert text == "channel_creds[1].config.ca_certificate_file: is a number; write a string"


@pytest.mark.parametrize("content", ["-----BEGIN CERTIFICATE-----\nMII", "eyJhbGciOiJub25lIn0.e30."])
def test_the_content_of_a_file_is_no_path_and_is_not_repeated(content: str) -> None:
    assert problem(server(tls(ca_certificate_file=content))) == (
        "channel_creds[0].config.ca_certificate_file: is the content of a file; write the path of the file"
    )


@pytest.mark.parametrize("kind", ["insecure", "tls", "google_default"])
def test_the_config_of_credentials_is_an_object(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_credentials, "find_spec", lambda name: object())
    assert problem(server({"type": kind, "config": []})) == "channel_creds[0].config: is a list; write an object"


def test_google_default_connects_with_tls() -> None:
    assert isinstance(channel_credentials.secure_network(MemoryNetwork(), GoogleDefault(), PLANE), TlsNetwork)


def test_google_default_without_its_package_says_so() -> None:
    assert problem(server({"type": "google_default"})) == (
        "channel_creds: google_default needs google-auth and requests; "
        "install google-auth[requests], or add tls or insecure"
    )


def test_google_default_without_its_package_is_passed_over() -> None:
    assert only(server({"type": "google_default"}, {"type": "insecure"})).credentials == Insecure()


def test_google_default_without_what_it_fetches_tokens_with_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_credentials, "find_spec", lambda name: object() if name == "google.auth" else None)
    assert only(server({"type": "google_default"}, {"type": "insecure"})).credentials == Insecure()


def test_google_default_with_its_package_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_credentials, "find_spec", lambda name: object())
    assert only(server({"type": "google_default"})).credentials == GoogleDefault()


def test_all_call_credentials_that_we_know_are_taken() -> None:
    creds = [
        {"type": "new"},
        *({"type": "jwt_token_file", "config": {"jwt_token_file": path}} for path in ("/a", "/b")),
    ]
    assert only(server({"type": "tls"}, call_creds=creds)).call_credentials == (JwtTokenFile("/a"), JwtTokenFile("/b"))


@pytest.mark.parametrize("more", [{}, {"config": {"jwt_token_file": ""}}])
def test_a_token_file_must_be_named(more: Any) -> None:
    assert problem(server({"type": "tls"}, call_creds=[{"type": "jwt_token_file", **more}])) == (
        "call_creds[0].config.jwt_token_file: is missing; write the path of the file with the token"
    )


def test_a_token_may_not_be_sent_without_tls() -> None:
    creds = [{"type": "jwt_token_file", "config": {"jwt_token_file": "/a"}}]
    assert problem(server({"type": "insecure"}, call_creds=creds)) == (
        "call_creds: may not be sent without TLS; use tls in channel_creds"
    )


def providers(**found: Any) -> Bootstrap:
    return parse({**server({"type": "insecure"}), "certificate_providers": found})


def test_certificate_providers_are_known_by_name() -> None:
    config = {"ca_certificate_file": "/ca.pem"}
    found = providers(mesh={"plugin_name": "file_watcher", "config": config}, vendor={"plugin_name": "vendors"})
    assert found.certificate_providers == {"mesh": CertificateFiles("/ca.pem")}


def test_a_certificate_provider_may_have_a_certificate_alone() -> None:
    config = {"certificate_file": "/cert.pem", "private_key_file": "/key.pem"}
    found = providers(mesh={"plugin_name": "file_watcher", "config": config})
    assert found.certificate_providers == {"mesh": CertificateFiles("", "/cert.pem", "/key.pem")}


def test_a_certificate_provider_provides_something() -> None:
    with pytest.raises(BootstrapError, match=r"certificate_providers\['mesh'\].config: has no certificates; write ca_"):
        providers(mesh={"plugin_name": "file_watcher", "config": {}})


# -- tokens


def jwt(**claims: Any) -> str:
    head, body = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims))
    return f"{head}.{body}.signature"


@pytest.mark.parametrize("subject", ["", "a", "ab", "abc"])  # base64 without its padding has one of these lengths
def test_a_token_is_read_as_it_is(tmp_path: Path, subject: str) -> None:
    path, token = tmp_path / "token", jwt(exp=1, sub=subject)
    path.write_text(f"{token}\n")
    assert read_token(str(path)) == token


def test_a_token_with_a_line_end_inside_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(jwt(exp=1).replace(".signature", ".sig\nnature"))
    with pytest.raises(OSError, match=rf"jwt_token_file {path}: its token has .* so it cannot be sent"):
        read_token(str(path))


@pytest.mark.parametrize(
    "text", ["", "hello", "a.b", "a.e30.c", "a.e3t7.c", "a.W10.c", "a.\u00e9.c", jwt(exp="soon"), jwt(sub="me")]
)
def test_a_file_without_a_token_is_named_in_the_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text, "utf-8")
    with pytest.raises(OSError, match=rf"jwt_token_file {path} has no JWT"):
        read_token(str(path))


def test_a_token_file_that_is_not_there_is_named() -> None:
    with pytest.raises(OSError, match=r"jwt_token_file /none cannot be read: No such file or directory"):
        read_token("/none")


async def test_google_default_fetches_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    class Credentials:
        token = ""

        def refresh(self, request: object) -> None:
            self.token = "from-google"

    auth, requests = ModuleType("google.auth"), ModuleType("google.auth.transport.requests")
    auth.__dict__["default"] = lambda scopes: (Credentials(), "project")
    requests.__dict__["Request"] = object
    monkeypatch.setitem(sys.modules, "google.auth", auth)
    monkeypatch.setitem(sys.modules, "google.auth.transport.requests", requests)
    headers = await fetch_authorization(ServerConfig(PLANE, GoogleDefault()))
    assert headers == [(b"authorization", b"Bearer from-google")]


async def test_a_failure_of_google_default_to_fetch_a_token_is_an_oserror(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(scopes: object) -> None:
        raise AttributeError("'list' object has no attribute 'get'")

    auth = ModuleType("google.auth")
    auth.__dict__["default"] = stumble
    monkeypatch.setitem(sys.modules, "google.auth", auth)
    monkeypatch.setitem(sys.modules, "google.auth.transport.requests", ModuleType("google.auth.transport.requests"))
    with pytest.raises(OSError, match="google_default: no token: 'list' object has no attribute 'get'"):
        await fetch_authorization(ServerConfig(PLANE, GoogleDefault()))


async def test_a_token_that_google_default_cannot_fetch_has_the_errors_type_and_not_its_text(monkeypatch) -> None:
    class Credentials:
        def refresh(self, request: object) -> None:
            raise LookupError("the answer was: access_token=SECRET")

    auth, requests = ModuleType("google.auth"), ModuleType("google.auth.transport.requests")
    auth.__dict__["default"] = lambda scopes: (Credentials(), "project")
    requests.__dict__["Request"] = object
    monkeypatch.setitem(sys.modules, "google.auth", auth)
    monkeypatch.setitem(sys.modules, "google.auth.transport.requests", requests)
    with pytest.raises(OSError, match=r"^google_default: no token: its fetch failed with LookupError$"):
        await fetch_authorization(ServerConfig(PLANE, GoogleDefault()))


# -- ADS over TLS


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


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
