"""What the bootstrap says of how a client comes before its control plane: credentials and certificate providers."""

from __future__ import annotations

from typing import Any

import pytest
from support.credential_documents import PLANE, server, tls

from trxds.core.status import BootstrapError
from trxds.testing import MemoryNetwork
from trxds.transport.certificates import CertificateFiles
from trxds.transport.tls import TlsNetwork
from trxds.transport.transport_credentials import Insecure, Tls
from trxds.xds import channel_credentials
from trxds.xds.bootstrap import Bootstrap, ServerConfig, parse
from trxds.xds.channel_credentials import GoogleDefault, JwtTokenFile


def only(document: Any) -> ServerConfig:
    (found,) = parse(document).servers
    return found


def problem(document: Any) -> str:
    with pytest.raises(BootstrapError) as caught:
        parse(document)
    return str(caught.value).removeprefix("bootstrap: xds_servers[0].")


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
