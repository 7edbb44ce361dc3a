"""Certificate revocation lists (A69).

Where A69 lets the program choose, a certificate without a valid list is refused, and so is one with an expired list.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

import pytest
import trio
from support.mesh import Mesh, ask, method
from support.pki import DER, Authority

import trxds
from trxds.transport.certificates import CertificateFiles, ClientContext, FreshContext
from trxds.transport.crls import Crls, read_crls

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def ca() -> Authority:
    return Authority()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The directory of the lists."""
    folder = tmp_path / "crls"
    folder.mkdir()
    return folder


class Verdict:
    """Calls a host that shows a certificate, over a channel with revocation lists."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def of(self, ca: Authority, leaf, crls: bytes | Path, more_roots: bytes = b"") -> str:
        """Return "accepted", or why the host was refused."""
        async with Mesh.run(hosts=0) as mesh:
            mesh.endpoints("cart", [await mesh.add_host(tls=leaf.server_context(self._folder))])
            async with mesh.channel(credentials=trxds.tls(roots=ca.pem + more_roots, crls=crls)) as channel:
                try:
                    await method(channel)(b"", timeout=5)
                except trxds.RpcError as error:
                    return error.status.message
        return "accepted"


@pytest.fixture
def verdict(tmp_path, autojump_clock) -> Verdict:
    return Verdict(tmp_path)


# -- what a list says


async def test_a_certificate_that_is_not_in_the_list_of_its_issuer_is_accepted(ca, verdict) -> None:
    other = ca.issue(names=["other"])
    assert await verdict.of(ca, ca.issue(names=["shop"]), ca.crl_pem(other)) == "accepted"


async def test_a_revoked_certificate_is_refused(ca, verdict) -> None:
    leaf = ca.issue(names=["shop"])
    text = await verdict.of(ca, leaf, ca.crl_pem(leaf))
    assert "certificate revoked by the CRLs given as bytes (1, until " in text


async def test_a_certificate_without_a_list_of_its_issuer_is_refused(ca, verdict, folder) -> None:
    (folder / "other").write_bytes(Authority("other").crl_pem())
    text = await verdict.of(ca, ca.issue(names=["shop"]), folder)
    assert f"an issuer of the peer's chain has none in the CRLs of {folder} (1, until " in text
    assert text.endswith("): put it there")


async def test_an_expired_list_refuses(ca, verdict) -> None:
    text = await verdict.of(ca, ca.issue(names=["shop"]), ca.crl_pem(age=2 * HOUR, lasts=HOUR))
    assert "CRL has expired; replace it in the CRLs given as bytes" in text


async def test_a_list_of_the_future_refuses(ca, verdict) -> None:
    assert "CRL is not yet valid; replace it" in await verdict.of(ca, ca.issue(names=["shop"]), ca.crl_pem(age=-HOUR))


async def test_a_list_that_another_authority_signed_refuses(ca, verdict) -> None:
    forged = ca.crl_pem(signed_by=Authority())
    text = await verdict.of(ca, ca.issue(names=["shop"]), forged)
    assert "CRL signature failure; replace it in the CRLs given as bytes" in text


async def test_an_issuer_that_may_not_sign_lists_refuses(verdict) -> None:
    ca = Authority(signs_crls=False)
    text = await verdict.of(ca, ca.issue(names=["shop"]), ca.crl_pem())
    assert "key usage does not include CRL signing" in text.lower().replace("crl", "CRL")


async def test_each_certificate_of_the_chain_needs_a_list(ca, verdict) -> None:
    below = Authority("below", ca)
    leaf = below.issue(names=["shop"])
    assert await verdict.of(ca, leaf, ca.crl_pem() + below.crl_pem()) == "accepted"
    assert "put it there" in await verdict.of(ca, leaf, below.crl_pem())
    assert "put it there" in await verdict.of(ca, leaf, ca.crl_pem())


async def test_with_lists_the_roots_need_each_authority_up_to_the_first(ca, verdict) -> None:
    below = Authority("below", ca)
    text = await verdict.of(below, below.issue(names=["shop"]), ca.crl_pem() + below.crl_pem())
    assert "unable to get issuer certificate; with revocation lists, the roots need each authority up to one" in text


async def test_the_roots_may_have_an_authority_below_another_one_too(ca, verdict) -> None:
    """If a chain ended there, OpenSSL would check the list of the upper one by the key of the lower one."""
    below = Authority("below", ca)
    lists = ca.crl_pem() + below.crl_pem()
    assert await verdict.of(ca, below.issue(names=["shop"]), lists, more_roots=below.pem) == "accepted"


async def test_a_revoked_authority_in_the_chain_refuses(ca, verdict) -> None:
    below = Authority("below", ca)
    assert "revoked" in await verdict.of(ca, below.issue(names=["shop"]), ca.crl_pem(below) + below.crl_pem())


async def test_authorities_of_one_name_have_a_list_each(ca, verdict) -> None:
    assert await verdict.of(ca, ca.issue(names=["shop"]), ca.crl_pem() + Authority().crl_pem()) == "accepted"


async def test_hosts_are_not_checked_without_lists(ca, verdict, tmp_path, autojump_clock) -> None:
    async with Mesh.run(hosts=0) as mesh:
        mesh.endpoints("cart", [await mesh.add_host(tls=ca.issue(names=["shop"]).server_context(tmp_path))])
        async with mesh.channel(credentials=trxds.tls(roots=ca.pem)) as channel:
            assert await ask(channel) == mesh.hosts[0]


# -- the lists themselves


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x30\x82\x01", b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----"]
)
def test_bytes_without_a_list_are_an_error_at_once(content) -> None:
    with pytest.raises(ValueError, match=r"crls is empty|cannot read all CRLs given as bytes: it "):
        trxds.tls(crls=content)


def test_a_delta_list_is_an_error(ca) -> None:
    with pytest.raises(ValueError, match="it is a delta CRL; only complete ones are supported"):
        trxds.tls(crls=ca.crl_pem(is_delta=True))


def test_a_directory_that_does_not_exist_yet_is_no_error(tmp_path) -> None:
    """A69: the provider is made whatever the first reading finds."""
    trxds.tls(crls=tmp_path / "later")


async def test_a_directory_without_a_list_refuses_and_says_so(ca, verdict, folder) -> None:
    text = await verdict.of(ca, ca.issue(names=["shop"]), folder)
    assert text.endswith(f"there are no CRLs of {folder}; without one no peer is accepted")


async def test_a_missing_directory_refuses_and_says_so(ca, verdict, folder) -> None:
    text = await verdict.of(ca, ca.issue(names=["shop"]), folder / "none")
    assert text.endswith(f"CRLs of {folder}/none: No such file or directory; without one no peer is accepted")


def test_names_of_files_mean_nothing_and_lists_may_be_pem_or_der(ca, folder) -> None:
    other = Authority("other")
    (folder / "a.txt").write_bytes(b"# ours\n" + ca.crl_pem() + Authority("third").crl_pem())
    (folder / "b").write_bytes(other.crl().public_bytes(DER))
    (folder / "old").mkdir()
    crls = read_crls(str(folder))
    assert len(crls.lists) == 3 and crls.problems == ()


def test_a_spoilt_list_keeps_no_other_one_of_its_file_from_being_used(ca, folder) -> None:
    spoilt = b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"
    (folder / "both").write_bytes(spoilt + ca.crl_pem())
    crls = read_crls(str(folder))
    assert len(crls.lists) == 1 and crls.problems == ("both: it is no DER, or was cut off",)


def test_a_list_that_openssl_refuses_keeps_no_other_one_from_being_used(ca, folder) -> None:
    other = Authority("other").crl()
    spoilt = other.public_bytes(DER).replace(b"\0" + other.signature, b"\x09" + other.signature)  # 9 unused bits
    put(folder, good=ca.crl(), spoilt=spoilt)
    crls = read_crls(str(folder))
    assert len(crls.lists) == 1 and crls.problems == ("spoilt: it has not the form of a CRL",)


def test_of_two_lists_of_an_issuer_the_newer_one_counts(ca, folder) -> None:
    leaf = ca.issue(names=["shop"])
    newer, older = ca.crl(leaf, age=HOUR), ca.crl(age=2 * HOUR)
    for names in (("1", "2"), ("2", "1")):
        for name, crl in zip(names, (newer, older), strict=True):
            (folder / name).write_bytes(crl.public_bytes(DER))
        assert [each.der for each in read_crls(str(folder)).lists.values()] == [newer.public_bytes(DER)]


# -- reading again


def ders(crls: Crls) -> set[bytes]:
    return {each.der for each in crls.lists.values()}


def put(folder: Path, **lists) -> None:
    for name, crl in lists.items():
        (folder / name).write_bytes(crl if isinstance(crl, bytes) else crl.public_bytes(DER))


def test_a_list_that_is_no_more_in_the_directory_is_forgotten(ca, folder) -> None:
    one, two = ca.crl(), Authority("two").crl()
    put(folder, one=one, two=two)
    before = read_crls(str(folder))
    (folder / "two").unlink()
    assert ders(read_crls(str(folder), before)) == {one.public_bytes(DER)}


def test_while_a_file_cannot_be_read_no_list_is_forgotten_and_the_others_are_updated(ca, folder) -> None:
    """The example of A69: A and B are new, C is spoilt, D is gone, and E was never good."""
    b, c, d = Authority("b"), Authority("c"), Authority("d")
    first = {"a": ca.crl(age=2 * HOUR), "b": b.crl(age=2 * HOUR), "c": c.crl(), "d": d.crl()}
    put(folder, **first)
    before = read_crls(str(folder))
    second = {"a": ca.crl(), "b": b.crl()}
    put(folder, **second, c=b"spoilt", e=b"spoilt too")
    (folder / "d").unlink()
    after = read_crls(str(folder), before)
    kept = (second["a"], second["b"], first["c"], first["d"])
    assert ders(after) == {crl.public_bytes(DER) for crl in kept}
    assert after.problem == (
        f"cannot read all CRLs of {folder}: c: it has no CRL (BEGIN X509 CRL); e: it has no CRL (BEGIN X509 CRL)"
    )


def test_a_file_that_cannot_be_opened_is_named(ca, folder) -> None:
    put(folder, one=ca.crl())
    (folder / "two").symlink_to("nowhere")
    assert read_crls(str(folder)).problems == ("two: No such file or directory",)


def test_a_reading_makes_one_warning_for_all_its_files(ca, folder, caplog) -> None:
    put(folder, a=ca.crl())
    fresh = FreshContext(CertificateFiles(crls=str(folder)))
    fresh.take(fresh.read(), 0)
    put(folder, b=b"", c=b"")
    for now in (600, 1200):
        fresh.take(fresh.read(), now)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "b: it has no CRL" in caplog.text and "c: it has no CRL" in caplog.text


def test_a_directory_with_an_unreadable_file_is_read_once_in_each_interval(ca, folder) -> None:
    put(folder, a=ca.crl(), b=b"")
    fresh = FreshContext(CertificateFiles(crls=str(folder)))
    context = fresh.take(fresh.read(), 0)
    assert fresh.current(599) is context


def test_a_spoilt_certificate_of_ours_does_not_hide_a_new_list(ca, folder, tmp_path) -> None:
    certificate, key = ca.issue(names=["web"]).write(tmp_path)
    put(folder, a=ca.crl(age=2 * HOUR))
    fresh = FreshContext(CertificateFiles(certificate=certificate, private_key=key, crls=str(folder)))
    first = fresh.take(fresh.read(), 0)
    Path(key).write_text("spoilt")
    put(folder, a=ca.crl(), b=Authority("b").crl())
    assert fresh.take(fresh.read(), 600) is first
    assert isinstance(first, ClientContext) and first.crls is not None and len(first.crls.lists) == 2
    assert first.cert_store_stats()["crl"] >= 2


async def test_a_revocation_holds_for_the_next_connection_after_the_interval(
    ca, folder, tmp_path, autojump_clock
) -> None:
    first, second = ca.issue(names=["shop"]), ca.issue(names=["shop"])
    put(folder, a=ca.crl(age=2 * HOUR))
    async with Mesh.run(hosts=0) as mesh:
        mesh.endpoints("cart", [await mesh.add_host(tls=first.server_context(tmp_path))])
        credentials = trxds.tls(roots=ca.pem, crls=folder, refresh_interval=60)
        async with mesh.channel(credentials=credentials) as channel:
            await ask(channel)
            put(folder, a=ca.crl(second))
            host = await mesh.add_host(tls=second.server_context(tmp_path))
            mesh.endpoints("cart", [host])
            while await ask(channel) != host:  # the list was read less than 60 s ago
                pass
            autojump_clock.jump(60)
            last = await mesh.add_host(tls=second.server_context(tmp_path))
            mesh.endpoints("cart", [last])
            await mesh.plane.wait_for_ack("EDS")
            with pytest.raises(trxds.RpcError, match="certificate revoked"):
                while True:
                    await ask(channel)


async def test_each_connection_is_checked_anew(ca, folder, tmp_path, autojump_clock) -> None:
    """A resumed TLS session would pass over the lists."""
    put(folder, a=ca.crl())
    context = ca.issue(names=["shop"]).server_context(tmp_path)
    async with Mesh.run(hosts=0) as mesh:
        host = await mesh.add_host(tls=context)
        mesh.endpoints("cart", [host])
        async with mesh.channel(credentials=trxds.tls(roots=ca.pem, crls=folder)) as channel:
            await ask(channel)
            mesh.servers[host].goaway()
            await trio.sleep(60)
            await ask(channel)
    assert (context.session_stats()["accept_good"], context.session_stats()["hits"]) == (2, 0)


# -- what operators see


async def test_an_explanation_names_the_lists_in_use(ca, folder, tmp_path, autojump_clock) -> None:
    put(folder, a=ca.crl())
    async with Mesh.run(hosts=0) as mesh:
        mesh.endpoints("cart", [await mesh.add_host(tls=ca.issue(names=["shop"]).server_context(tmp_path))])
        async with mesh.channel(credentials=trxds.tls(roots=ca.pem, crls=folder)) as channel:
            await ask(channel)
            assert f"(READY) by TLS, CRLs of {folder} (1, until " in str(await channel.explain("/shop.Cart/Add"))


def test_what_could_not_be_read_is_shown_beside_the_lists_in_use(ca, folder) -> None:
    put(folder, a=ca.crl(), b=b"")
    fresh = FreshContext(CertificateFiles(crls=str(folder)))
    assert str(fresh.take(fresh.read(), 0)).endswith(
        f"; cannot read all CRLs of {folder}: b: it has no CRL (BEGIN X509 CRL)"
    )
