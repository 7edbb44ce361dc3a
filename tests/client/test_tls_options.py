"""`trxds.tls` takes PEM as bytes or as a path, and says what is wrong with any other argument."""

from __future__ import annotations

import os
import re
import ssl
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from support.mesh import Mesh, ask

import trxds

pytestmark = pytest.mark.slow

TLSv1_2, TLSv1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
KEY = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"


@pytest.fixture
async def mesh(ca, autojump_clock):
    """A mesh with one host over TLS, whose certificate is valid for the target."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("shop").configure_cert(context)
    context.set_alpn_protocols(["h2"])
    async with Mesh.run(hosts=0) as mesh:
        mesh.endpoints("cart", [await mesh.add_host(tls=context)])
        yield mesh


async def test_roots_may_be_pem_bytes(mesh, ca) -> None:
    async with mesh.channel(credentials=trxds.tls(roots=ca.cert_pem.bytes())) as channel:
        assert await ask(channel) == mesh.hosts[0]


async def test_roots_of_another_ca_in_bytes_trust_no_host(mesh) -> None:
    async with mesh.channel(credentials=trxds.tls(roots=trustme.CA().cert_pem.bytes())) as channel:
        with pytest.raises(trxds.RpcError, match="certificate verify failed"):
            await ask(channel)


async def test_roots_may_be_a_path_object(mesh, ca, tmp_path: Path) -> None:
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with mesh.channel(credentials=trxds.tls(roots=tmp_path / "ca.pem")) as channel:
        assert await ask(channel) == mesh.hosts[0]


async def test_pem_bytes_may_have_several_roots_and_text_between_them(mesh, ca) -> None:
    bundle = "# Főtanúsítvány\n".encode() + trustme.CA().cert_pem.bytes() + ca.cert_pem.bytes()
    async with mesh.channel(credentials=trxds.tls(roots=bundle)) as channel:
        assert await ask(channel) == mesh.hosts[0]


@asynccontextmanager
async def channel_beyond_ascii(ca, name: str):
    """A channel to "m\u00fcnchen.example", whose host proves `name`; the authority is "m%C3%BCnchen.example"."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(name).configure_cert(context)
    context.set_alpn_protocols(["h2"])
    async with Mesh.run(tls=context) as mesh:
        mesh.listen(name="m\u00fcnchen.example")
        credentials = trxds.tls(roots=ca.cert_pem.bytes())
        async with mesh.channel("xds:///m\u00fcnchen.example", credentials=credentials) as channel:
            yield channel


async def test_a_target_beyond_ascii_is_proved_by_its_name_in_idna(ca, autojump_clock) -> None:
    async with channel_beyond_ascii(ca, "xn--mnchen-3ya.example") as channel:
        assert await ask(channel)


async def test_a_target_beyond_ascii_is_not_proved_by_the_part_of_its_name_before_that(ca, autojump_clock) -> None:
    async with channel_beyond_ascii(ca, "m") as channel:
        with pytest.raises(trxds.RpcError, match=r"not valid for 'xn--mnchen-3ya\.example'"):
            await ask(channel)


def test_credentials_do_not_show_their_pem_bytes(ca) -> None:
    assert "CERTIFICATE" not in repr(trxds.tls(roots=ca.cert_pem.bytes()))


@pytest.mark.parametrize("argument", [b"pem", "ca.pem", 7])
def test_an_argument_of_tls_that_is_no_context_is_an_error_with_the_remedy(argument) -> None:
    with pytest.raises(TypeError, match=rf"ssl\.SSLContext, not {type(argument).__name__}; .* tls\(roots=\.\.\.\)"):
        trxds.tls(argument)


@pytest.mark.parametrize("interval", ["60", None, True, -1, float("nan")])
def test_an_interval_that_is_no_number_of_seconds_is_an_error_at_once(interval) -> None:
    with pytest.raises(ValueError, match=rf"refresh_interval is {interval!r}; it must be a number of seconds"):
        trxds.tls(refresh_interval=interval)


@pytest.mark.parametrize("name", [None, b"shop", 7])
def test_a_server_name_that_is_no_text_is_an_error_at_once(name) -> None:
    with pytest.raises(TypeError, match=f"server_name is the text of a name, .* not {type(name).__name__}"):
        trxds.tls(server_name=name)


@pytest.mark.parametrize("name", [".x", "a..b", ".", "x" * 64, "a\0b"])
def test_a_server_name_that_no_peer_can_have_is_an_error_at_once(name) -> None:
    remedy = re.escape(f"server_name {name!r} is no name that a peer can have; give a DNS name or an IP address")
    for context in (None, ssl.create_default_context()):
        with pytest.raises(ValueError, match=remedy):
            trxds.tls(context, server_name=name)


@pytest.mark.parametrize("name", ["", "shop.example", "shop.example.", "10.0.0.1", "::1", "bücher.example"])
def test_a_server_name_may_be_a_dns_name_or_an_ip_address(name) -> None:
    assert trxds.tls(server_name=name).server_name == name


@pytest.mark.parametrize("roots", [b"", b"/etc/ca.pem", b"\x30\x82"])
def test_bytes_without_a_pem_certificate_are_an_error_at_once(roots) -> None:
    with pytest.raises(ValueError, match=r"roots are bytes without a PEM certificate .* write a path as str"):
        trxds.tls(roots=roots)


def test_a_damaged_pem_certificate_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="roots are bytes of PEM that cannot be used: "):
        trxds.tls(roots=b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")


async def test_the_clients_certificate_and_key_may_be_pem_bytes(ca, autojump_clock) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("shop").configure_cert(context)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    own = ca.issue_cert("web")
    certificate, key = own.cert_chain_pems[0].bytes(), own.private_key_pem.bytes()
    async with Mesh.run(hosts=0) as mesh:
        mesh.endpoints("cart", [await mesh.add_host(tls=context)])
        credentials = trxds.tls(roots=ca.cert_pem.bytes(), certificate=certificate, private_key=key)
        async with mesh.channel(credentials=credentials) as channel:
            assert await ask(channel) == mesh.hosts[0]


def test_pem_bytes_need_no_memory_file(ca, monkeypatch) -> None:
    """Some systems forbid memfd_create."""
    monkeypatch.delattr(os, "memfd_create")
    own = ca.issue_cert("web")
    trxds.tls(certificate=own.cert_chain_pems[0].bytes(), private_key=own.private_key_pem.bytes())


@pytest.mark.parametrize("key", [KEY.encode(), trustme.CA().issue_cert("x").private_key_pem.bytes()])
def test_a_key_in_bytes_that_does_not_fit_is_an_error_at_once_and_not_shown(ca, key) -> None:
    certificate = ca.issue_cert("web").cert_chain_pems[0].bytes()
    with pytest.raises(
        ValueError, match="cannot use the certificate given as bytes with the key given as by"
    ) as refused:
        trxds.tls(certificate=certificate, private_key=key)
    assert "c2VjcmV0" not in str(refused.value)


def test_credentials_do_not_show_a_key_in_bytes(ca) -> None:
    own = ca.issue_cert("web")
    shown = repr(trxds.tls(certificate=own.cert_chain_pems[0].bytes(), private_key=own.private_key_pem.bytes()))
    assert "BEGIN" not in shown and "bytes>" in shown


# -- the version


def version_limited_to(ca: trustme.CA, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("shop").configure_cert(context)
    context.set_alpn_protocols(["h2"])
    context.maximum_version = version
    return context


@pytest.mark.parametrize(
    ("options", "is_reached"), [({}, True), ({"min_version": TLSv1_2}, True), ({"min_version": TLSv1_3}, False)]
)
async def test_a_host_below_the_lowest_version_is_refused(ca, autojump_clock, options, is_reached) -> None:
    async with Mesh.run(hosts=0) as mesh:
        mesh.endpoints("cart", [await mesh.add_host(tls=version_limited_to(ca, TLSv1_2))])
        async with mesh.channel(credentials=trxds.tls(roots=ca.cert_pem.bytes(), **options)) as channel:
            if is_reached:
                assert await ask(channel) == mesh.hosts[0]
            else:
                with pytest.raises(trxds.RpcError, match="the peer closed the connection during the handshake"):
                    await ask(channel)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.MINIMUM_SUPPORTED])
def test_a_lowest_version_that_http2_forbids_is_an_error(version) -> None:
    with pytest.raises(ValueError, match=f"min_version is {version.name}, and HTTP/2 needs TLSv1_2"):
        trxds.tls(min_version=version)


def test_a_lowest_version_of_another_type_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"min_version is an ssl\.TLSVersion, such as TLSv1_3, not str"):
        trxds.tls(min_version="1.3")  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"crls": "/crls"}, {"spiffe_bundle_map": "/map"}, {"min_version": TLSv1_3}])
def test_a_context_goes_with_no_other_argument(options) -> None:
    with pytest.raises(ValueError, match="a context has its own certificates and versions"):
        trxds.tls(ssl.create_default_context(), **options)


@pytest.mark.parametrize("name", ["crls", "spiffe_bundle_map"])
def test_an_empty_argument_leaves_no_check_out(name) -> None:
    """As from an environment variable that is not set."""
    for empty in ("", b""):
        with pytest.raises(ValueError, match=f"{name} is empty; give a path or bytes"):
            trxds.tls(**{name: empty})


class PathOfBytes:
    def __fspath__(self) -> bytes:
        return b"/key.pem"


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (7, "roots is the path of a file, not int; pass its content as bytes"),
        (PathOfBytes(), "roots is a path whose text is bytes; write it as str"),
    ],
)
def test_what_is_no_path_of_a_file_is_refused(path, problem) -> None:
    with pytest.raises(TypeError, match=problem):
        trxds.tls(roots=path)


@pytest.mark.parametrize("options", [{"roots": KEY}, {"certificate": "cert.pem", "private_key": KEY}])
def test_pem_text_in_place_of_a_path_is_refused_and_not_repeated(options) -> None:
    with pytest.raises(ValueError, match="is PEM text in place of the path of a file; ") as refused:
        trxds.tls(**options)
    assert "c2VjcmV0" not in str(refused.value)
