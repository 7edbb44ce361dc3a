"""SPIFFE bundle maps: which peers are refused, by channels with a map of their own (A87)."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

import pytest
from support.mesh import Mesh, ask, method
from support.pki import Authority, bundle, bundle_map
from support.verified_chain import hide_verified_chains, show_verified_chains

import trxds
from trxds.transport.certificates import CertificateFiles, FreshContext
from trxds.transport.spiffe import check_peer, spiffe_id_of
from trxds.transport.spiffe_bundles import BundleMap

CART = "spiffe://shop.example/cart"


@pytest.fixture(autouse=True)
def verified_chains(monkeypatch) -> None:
    show_verified_chains(monkeypatch)


# -- the check of a peer


def maps(**domains: Authority) -> BundleMap:
    named = {f"{name}.example": frozenset({each.der}) for name, each in domains.items()}
    return BundleMap("of map.json", named)


def certificate(*uris: str) -> dict:
    return {"subjectAltName": tuple(("URI", uri) for uri in uris)}


def test_a_chain_that_ends_in_the_bundle_of_the_leafs_domain_is_accepted(shop, bank) -> None:
    leaf = shop.issue(CART)
    chain = [leaf.der, shop.der]
    assert str(check_peer(maps(shop=shop, bank=bank), certificate(CART), chain)) == CART


def test_the_authority_of_another_domain_is_refused(shop, bank) -> None:
    leaf = bank.issue(CART)
    with pytest.raises(
        ValueError, match=r"says that it is spiffe://shop.example/cart, but no authority of shop.example"
    ):
        check_peer(maps(shop=shop, bank=bank), certificate(CART), [leaf.der, bank.der])


def test_a_trust_domain_that_is_not_in_the_map_is_refused(shop, bank) -> None:
    with pytest.raises(ValueError, match=r"trust domain shop.example is not in the SPIFFE bundle map of map.json"):
        check_peer(maps(bank=bank), certificate(CART), [bank.issue(CART).der, bank.der])


def test_an_unknown_chain_is_refused(shop) -> None:
    with pytest.raises(ValueError, match="the verified chain of the peer is not known"):
        check_peer(maps(shop=shop), certificate(CART), [])


@pytest.mark.parametrize("uris", [(), (CART, CART), (CART, "https://shop.example")])
def test_a_peer_without_exactly_one_uri_is_refused(shop, uris) -> None:
    with pytest.raises(ValueError, match=rf"has {len(uris)} URI names; a SPIFFE certificate has one"):
        spiffe_id_of(certificate(*uris), shop.issue(CART).der)


def test_a_peer_whose_uri_is_no_spiffe_id_is_refused(shop) -> None:
    with pytest.raises(ValueError, match=r"'https://shop\.example' is no SPIFFE ID"):
        spiffe_id_of(certificate("https://shop.example"), shop.issue(CART).der)


def test_a_certificate_that_may_sign_others_is_no_workloads(shop) -> None:
    for der in (shop.der, shop.issue(CART, signs=True).der, shop.issue(CART, is_ca=True).der):
        with pytest.raises(ValueError, match="may sign others; a workload's must not"):
            spiffe_id_of(certificate(CART), der)


# -- channels with a map of their own


class Verdict:
    """Calls a host that shows a certificate."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def of(self, leaf, **options) -> str:
        """Return "accepted", or why the host was refused. No RPC may have reached a refused host."""
        async with Mesh.run(hosts=0) as mesh:
            host = await mesh.add_host(tls=leaf.server_context(self._folder))
            mesh.endpoints("cart", [host])
            async with mesh.channel(credentials=trxds.tls(**options)) as channel:
                try:
                    await method(channel)(b"", timeout=5)
                except trxds.RpcError as error:
                    assert mesh.servers[host].calls == []
                    return error.status.message
        return "accepted"


@pytest.fixture
def verdict(tmp_path, autojump_clock) -> Verdict:
    return Verdict(tmp_path)


async def test_a_host_proves_a_spiffe_id(shop, map_file, verdict) -> None:
    assert await verdict.of(shop.issue(CART), spiffe_bundle_map=map_file, server_name=CART) == "accepted"


async def test_a_host_of_another_id_is_refused(shop, map_file, verdict) -> None:
    other = shop.issue("spiffe://shop.example/till")
    text = await verdict.of(other, spiffe_bundle_map=map_file, server_name=CART)
    assert f"the peer is spiffe://shop.example/till, and server_name is {CART}" in text


async def test_without_a_spiffe_id_as_server_name_the_host_proves_its_host_name_too(shop, map_file, verdict) -> None:
    assert await verdict.of(shop.issue(CART, names=["shop"]), spiffe_bundle_map=map_file) == "accepted"
    assert "Hostname mismatch" in await verdict.of(shop.issue(CART, names=["till"]), spiffe_bundle_map=map_file)


async def test_an_id_signed_by_the_authority_of_another_domain_is_refused_in_the_handshake(
    shop, bank, map_file, verdict
) -> None:
    text = await verdict.of(bank.issue(CART), spiffe_bundle_map=map_file, server_name=CART)
    assert f"SPIFFE: the peer says that it is {CART}, but no authority of shop.example" in text


async def test_an_id_of_an_unknown_domain_is_refused_in_the_handshake(shop, map_file, verdict) -> None:
    stranger = shop.issue("spiffe://post.example/cart")
    text = await verdict.of(stranger, spiffe_bundle_map=map_file, server_name=CART)
    assert "the trust domain post.example is not in the SPIFFE bundle map" in text


async def test_a_certificate_that_is_no_spiffe_certificate_is_refused_in_the_handshake(shop, map_file, verdict) -> None:
    text = await verdict.of(shop.issue(names=["shop"]), spiffe_bundle_map=map_file)
    assert "has 0 URI names; a SPIFFE certificate has one" in text


async def test_a_host_of_no_authority_of_the_map_is_refused(map_file, verdict) -> None:
    text = await verdict.of(Authority("nobody").issue(CART), spiffe_bundle_map=map_file, server_name=CART)
    assert f"; no authority in the SPIFFE bundle map of {map_file} (trust domains: bank.example, shop.example)" in text


async def test_an_empty_map_refuses_every_host(shop, verdict) -> None:
    text = await verdict.of(shop.issue(CART), spiffe_bundle_map=bundle_map({}), server_name=CART)
    assert "no authority in the SPIFFE bundle map given as bytes (trust domains: none)" in text


async def test_a_chain_may_have_authorities_below_the_one_of_the_bundle(shop, map_file, verdict) -> None:
    below = Authority("below", shop)
    assert await verdict.of(below.issue(CART), spiffe_bundle_map=map_file, server_name=CART) == "accepted"


async def test_a_bundle_may_have_an_authority_that_another_one_signed(verdict) -> None:
    below = Authority("below", Authority("top"))
    only_below = bundle_map({"shop.example": bundle(below)})
    assert await verdict.of(below.issue(CART), spiffe_bundle_map=only_below, server_name=CART) == "accepted"


async def test_authorities_of_several_domains_may_have_one_name(verdict) -> None:
    """As those that SPIRE makes."""
    one, two = Authority("SPIFFE"), Authority("SPIFFE")
    both = bundle_map({"shop.example": bundle(one), "bank.example": bundle(two)})
    assert await verdict.of(two.issue("spiffe://bank.example/x", names=["shop"]), spiffe_bundle_map=both) == "accepted"
    assert "no authority of bank.example" in await verdict.of(
        one.issue("spiffe://bank.example/x", names=["shop"]), spiffe_bundle_map=both
    )


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_peers_are_checked_in_each_version_of_tls(
    shop, bank, map_file, tmp_path, autojump_clock, version
) -> None:
    context = bank.issue(CART).server_context(tmp_path)
    context.minimum_version = context.maximum_version = version
    async with Mesh.run(hosts=0) as mesh:
        host = await mesh.add_host(tls=context)
        mesh.endpoints("cart", [host])
        credentials = trxds.tls(spiffe_bundle_map=map_file, server_name=CART)
        async with mesh.channel(credentials=credentials) as channel:
            with pytest.raises(trxds.RpcError, match=r"no authority of shop\.example"):
                await ask(channel)
        assert mesh.servers[host].calls == []


async def test_revocation_lists_go_with_a_bundle_map(shop, map_file, verdict) -> None:
    leaf = shop.issue(CART)
    options = {"spiffe_bundle_map": map_file, "server_name": CART}
    assert await verdict.of(leaf, **options, crls=shop.crl_pem()) == "accepted"
    assert "certificate revoked" in await verdict.of(leaf, **options, crls=shop.crl_pem(leaf))


async def test_with_lists_a_bundle_may_have_an_authority_below_another_one_too(verdict) -> None:
    """If a chain ended there, OpenSSL would check the list of the upper one by the key of the lower one."""
    top = Authority("top")
    below = Authority("below", top)
    both = bundle_map({"shop.example": bundle(top, below)})
    options = {"spiffe_bundle_map": both, "server_name": CART, "crls": top.crl_pem() + below.crl_pem()}
    assert await verdict.of(below.issue(CART), **options) == "accepted"


async def test_with_lists_the_upper_authority_may_be_of_another_domain(verdict) -> None:
    """Then the chain ends there, and the domain's own authority is in the middle of it."""
    top = Authority("top")
    below = Authority("below", top)
    both = bundle_map({"shop.example": bundle(below), "bank.example": bundle(top)})
    options = {"spiffe_bundle_map": both, "server_name": CART, "crls": top.crl_pem() + below.crl_pem()}
    assert await verdict.of(below.issue(CART), **options) == "accepted"


async def test_with_lists_a_bundle_map_needs_each_authority_up_to_the_first(verdict) -> None:
    top = Authority("top")
    below = Authority("below", top)
    only_below = bundle_map({"shop.example": bundle(below)})
    options = {"spiffe_bundle_map": only_below, "server_name": CART, "crls": top.crl_pem() + below.crl_pem()}
    text = await verdict.of(below.issue(CART), **options)
    assert "; with revocation lists, the SPIFFE bundle map" in text and text.endswith(" up to one that signed itself")


def test_roots_and_a_bundle_map_are_an_error(shop, map_file) -> None:
    with pytest.raises(ValueError, match="roots and spiffe_bundle_map are two answers"):
        trxds.tls(roots=shop.pem, spiffe_bundle_map=map_file)


def test_a_map_in_bytes_that_is_invalid_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="cannot use the SPIFFE bundle map given as bytes: trust_domains: is missing"):
        trxds.tls(spiffe_bundle_map=b"{}")


@pytest.mark.parametrize(("name", "text"), [(CART, "give both"), ("spiffe://Shop/cart", "is no SPIFFE ID")])
def test_a_spiffe_id_as_server_name_needs_a_bundle_map_and_its_form(name, text) -> None:
    with pytest.raises(ValueError, match=text):
        trxds.tls(server_name=name)


# -- a Python that cannot show the verified chain


def test_a_bundle_map_is_refused_where_the_chain_cannot_be_checked(map_file, monkeypatch) -> None:
    hide_verified_chains(monkeypatch)
    version = "{}.{}".format(*sys.version_info)
    with pytest.raises(RuntimeError, match=rf"spiffe_bundle_map needs Python 3\.13, .* this is {version}"):
        trxds.tls(spiffe_bundle_map=map_file)


# -- the map is read again


def test_a_map_that_cannot_be_read_at_first_is_an_error(tmp_path) -> None:
    fresh = FreshContext(CertificateFiles(spiffe_bundle_map=str(tmp_path / "none.json")))
    with pytest.raises(OSError, match=r"none\.json: No such file or directory"):
        fresh.take(fresh.read(), 0)


def test_a_spoilt_map_leaves_the_one_before_in_use(map_file, caplog) -> None:
    fresh = FreshContext(CertificateFiles(spiffe_bundle_map=str(map_file)))
    first = fresh.take(fresh.read(), 0)
    map_file.write_text("{")
    second = fresh.take(fresh.read(), 600)
    assert second.bundles is not None and second.bundles == first.bundles
    assert "no valid JSON at line 1" in caplog.text and "the files read before stay in use" in caplog.text


def test_a_spoilt_map_does_not_hold_up_a_new_certificate_of_ours(shop, map_file, tmp_path) -> None:
    certificate, key = shop.issue(CART).write(tmp_path)
    fresh = FreshContext(CertificateFiles("", certificate, key, spiffe_bundle_map=str(map_file)))
    first = fresh.take(fresh.read(), 0)
    map_file.write_text("{")
    assert fresh.take(fresh.read(), 600) is not first


async def test_a_trust_domain_that_is_taken_back_is_refused_at_the_next_connection(
    shop, bank, map_file, tmp_path, autojump_clock
) -> None:
    async with Mesh.run(hosts=0) as mesh:
        mesh.endpoints("cart", [await mesh.add_host(tls=shop.issue(CART).server_context(tmp_path))])
        credentials = trxds.tls(spiffe_bundle_map=map_file, server_name=CART, refresh_interval=60)
        async with mesh.channel(credentials=credentials) as channel:
            await ask(channel)
            map_file.write_bytes(bundle_map({"shop.example": bundle(), "bank.example": bundle(bank)}))
            autojump_clock.jump(60)
            mesh.endpoints("cart", [await mesh.add_host(tls=shop.issue(CART).server_context(tmp_path))])
            with pytest.raises(trxds.RpcError, match="no authority in the SPIFFE bundle map"):
                while True:
                    await ask(channel)
