"""`trxds.tls` takes roots as PEM bytes or as a path, and says what is wrong with any other argument."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme
from support.mesh import Mesh, ask

import trxds

pytestmark = pytest.mark.slow

KEY = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


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


def test_credentials_do_not_show_their_pem_bytes(ca) -> None:
    assert "CERTIFICATE" not in repr(trxds.tls(roots=ca.cert_pem.bytes()))


@pytest.mark.parametrize("argument", [b"pem", "ca.pem", 7])
def test_an_argument_of_tls_that_is_no_context_is_an_error_with_the_remedy(argument) -> None:
    with pytest.raises(TypeError, match=rf"ssl\.SSLContext, not {type(argument).__name__}; .* tls\(roots=\.\.\.\)"):
        trxds.tls(argument)


@pytest.mark.parametrize("roots", [b"", b"/etc/ca.pem", b"\x30\x82"])
def test_bytes_without_a_pem_certificate_are_an_error_at_once(roots) -> None:
    with pytest.raises(ValueError, match=r"roots are bytes without a PEM certificate .* write a path as str"):
        trxds.tls(roots=roots)


def test_a_damaged_pem_certificate_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="roots are bytes of PEM that cannot be used: "):
        trxds.tls(roots=b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")


@pytest.mark.parametrize(("name", "remedy"), [("certificate", "from a file only"), ("private_key", "from a file only")])
def test_a_key_or_certificate_in_bytes_is_an_error_with_the_remedy(name, remedy) -> None:
    options = {"certificate": "cert.pem", "private_key": "key.pem", name: KEY.encode()}
    with pytest.raises(TypeError, match=f"{name} is the path of a PEM file, not bytes; .*{remedy}"):
        trxds.tls(**options)


@pytest.mark.parametrize("options", [{"roots": KEY}, {"certificate": "cert.pem", "private_key": KEY}])
def test_pem_text_in_place_of_a_path_is_refused_and_not_repeated(options) -> None:
    with pytest.raises(ValueError, match="is PEM text in place of the path of a file; ") as refused:
        trxds.tls(**options)
    assert "c2VjcmV0" not in str(refused.value)
