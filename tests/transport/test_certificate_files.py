"""Files of certificates: errors that name them, and files that are read again."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio
import trio.testing
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from support.tls_peers import wants_certificates

from trxds.transport.certificates import CertificateFiles, FreshContext, client_context


def test_an_invalid_certificate_path_is_named() -> None:
    """A bootstrap may have any text as a path."""
    with pytest.raises(OSError, match=r"^cannot read 'the roots of /a\\x00b': embedded null"):
        client_context(CertificateFiles(roots="/a\0b"))


def test_a_missing_certificate_file_is_named() -> None:
    with pytest.raises(OSError, match=r"^cannot read the roots of /none\.pem: No such file or directory$"):
        client_context(CertificateFiles(roots="/none.pem"))


def test_a_file_that_holds_no_certificate_is_named(tmp_path: Path) -> None:
    path = tmp_path / "roots.pem"
    path.write_text("hello")
    with pytest.raises(OSError, match=rf"^cannot use the roots of {path}: "):
        client_context(CertificateFiles(roots=str(path)))


def test_a_key_of_another_certificate_is_named(ca, files, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    ca.issue_cert("x").private_key_pem.write_to_path(str(other))
    with pytest.raises(OSError, match=r"cannot use the certificate of .*client\.pem with the key of .*other\.pem: "):
        client_context(CertificateFiles(files.roots, files.certificate, str(other)))


def test_an_encrypted_key_is_said_to_be_encrypted(ca, files, tmp_path: Path) -> None:
    whole = load_pem_private_key(ca.issue_cert("x").private_key_pem.bytes(), None)
    encrypted = whole.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    path = tmp_path / "key.pem"
    path.write_bytes(encrypted)
    with pytest.raises(OSError, match="or the key is encrypted; write both in PEM, the key without a password"):
        client_context(CertificateFiles(files.roots, files.certificate, str(path)))


def test_half_a_root_is_said_to_be_no_pem(files) -> None:
    path = Path(files.roots)
    path.write_bytes(path.read_bytes() + path.read_bytes()[:200])
    with pytest.raises(OSError, match=r"roots\.pem: a certificate in it is no valid PEM; write it anew$"):
        client_context(files)


def test_certificate_files_are_read_again_after_the_interval(files) -> None:
    fresh = FreshContext(files)
    assert fresh.current(0) is None
    first = fresh.take(fresh.read(), 0)
    assert fresh.current(599) is first
    assert fresh.current(600) is None


def test_unusable_certificate_files_leave_the_last_good_ones_in_force(files, caplog) -> None:
    fresh = FreshContext(files)
    first = fresh.take(fresh.read(), 0)
    whole = Path(files.roots).read_bytes()
    Path(files.roots).write_bytes(b"")
    for now in (600, 601):
        assert fresh.current(now) is None
        assert fresh.take(fresh.read(), now) is first
    assert len(caplog.records) == 1 and "the files read before stay in use" in caplog.text
    Path(files.roots).write_bytes(whole)
    assert fresh.take(fresh.read(), 602) is not first


def write_comment(files: CertificateFiles, comment: str) -> None:
    path = Path(files.roots)
    path.write_text(f"{comment}\n{path.read_text()}", "utf-8")


def renew_certificate_and_delete_roots(ca: trustme.CA, files: CertificateFiles) -> None:
    ca.issue_cert("renewed.example").private_key_and_cert_chain_pem.write_to_path(str(files.certificate))
    Path(files.roots).unlink()


async def client_certificate(ca: trustme.CA, context: ssl.SSLContext) -> str:
    """Return the name in the certificate that a client with this context shows."""
    here, there = trio.testing.memory_stream_pair()
    server = trio.SSLStream(there, wants_certificates(ca), server_side=True)
    client = trio.SSLStream(here, context, server_hostname="cart.example")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.do_handshake)
        await server.do_handshake()
    return str(server.getpeercert()["subjectAltName"][0][1])


@pytest.mark.parametrize("comment", ["", "# autorité"])
async def test_deleted_roots_do_not_hold_up_a_new_certificate_of_the_client(ca, files, caplog, comment) -> None:
    write_comment(files, comment)
    fresh = FreshContext(files)
    fresh.take(fresh.read(), 0)
    renew_certificate_and_delete_roots(ca, files)
    context = fresh.take(fresh.read(), 600)
    assert await client_certificate(ca, context) == "renewed.example"
    assert "cannot read the roots" in caplog.text


def test_a_certificate_that_is_no_good_does_not_hold_up_new_roots(ca, files) -> None:
    fresh = FreshContext(files)
    fresh.take(fresh.read(), 0)
    Path(files.certificate).write_text("spoilt")
    trustme.CA().cert_pem.write_to_path(files.roots, append=True)
    assert fresh.take(fresh.read(), 600).cert_store_stats()["x509_ca"] == 2


def test_files_that_are_good_only_in_part_are_read_again_for_the_next_connection(ca, files, caplog) -> None:
    fresh = FreshContext(files)
    fresh.take(fresh.read(), 0)
    whole = Path(files.roots).read_bytes()
    renew_certificate_and_delete_roots(ca, files)
    context = fresh.take(fresh.read(), 600)
    assert fresh.current(600) is None
    assert fresh.take(fresh.read(), 601) is context
    assert len(caplog.records) == 1
    Path(files.roots).write_bytes(whole)
    assert fresh.take(fresh.read(), 602) is not context
    assert fresh.current(603) is not None


def test_certificate_files_that_were_never_usable_are_an_error_each_time() -> None:
    fresh = FreshContext(CertificateFiles(roots="/none.pem"))
    for now in (0, 1):
        with pytest.raises(OSError, match="cannot read the roots"):
            fresh.take(fresh.read(), now)
