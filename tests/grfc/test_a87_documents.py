"""The documents of A87: SPIFFE IDs, and bundle maps in JSON."""

from __future__ import annotations

import base64
import json

import pytest
from support.pki import Authority, bundle, bundle_map

from trxds.transport.spiffe import parse_spiffe_id
from trxds.transport.spiffe_bundles import parse_bundle_map

CART = "spiffe://shop.example/cart"


# -- SPIFFE IDs


@pytest.mark.parametrize(
    ("text", "domain", "path"),
    [
        (CART, "shop.example", "/cart"),
        ("spiffe://shop.example", "shop.example", ""),
        ("SPIFFE://shop.example/ns/Default/sa/a_b-c.d", "shop.example", "/ns/Default/sa/a_b-c.d"),
        ("spiffe://" + "a" * 255, "a" * 255, ""),
    ],
)
def test_a_well_formed_spiffe_id_has_a_trust_domain_and_a_path(text, domain, path) -> None:
    found = parse_spiffe_id(text)
    assert (found.trust_domain, found.path) == (domain, path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "spiffe://",
        "spiffe:///cart",
        "https://shop.example/cart",
        "spiffe://Shop.example/cart",
        "spiffe://shop.example:443/cart",
        "spiffe://user@shop.example/cart",
        "spiffe://shop.example/",
        "spiffe://shop.example/cart/",
        "spiffe://shop.example//cart",
        "spiffe://shop.example/./cart",
        "spiffe://shop.example/../cart",
        "spiffe://shop.example/cart?x",
        "spiffe://shop.example/cart#x",
        "spiffe://shop.example/c%61rt",
        "spiffe://shop.example/cart\n",
        "spiffe://shop.example/cart\0.bank.example",
        "spiffe://shop.exämple/cart",
        "spiffe://" + "a" * 256,
        "spiffe://shop.example/" + "a" * 2048,
    ],
)
def test_a_malformed_spiffe_id_is_an_error(text) -> None:
    with pytest.raises(ValueError, match="is no SPIFFE ID"):
        parse_spiffe_id(text)


# -- the document


def key(shop: Authority, **changes) -> dict:
    """Return a key of a bundle; a change to None leaves a member out."""
    whole = bundle(shop)["keys"][0] | changes
    return {name: value for name, value in whole.items() if value is not None}


def problem(document: object) -> str:
    with pytest.raises(ValueError) as refused:
        parse_bundle_map(json.dumps(document).encode(), "of map.json")
    return str(refused.value)


def test_each_trust_domain_has_its_own_authorities(shop, bank) -> None:
    domains = {"shop.example": bundle(shop, bank), "bank.example": bundle(bank)}
    found = parse_bundle_map(bundle_map(domains), "of map.json")
    assert found.domains == {"shop.example": {shop.der, bank.der}, "bank.example": {bank.der}}
    assert str(found) == "SPIFFE bundle map of map.json (trust domains: bank.example, shop.example)"


def test_an_empty_map_is_valid() -> None:
    assert parse_bundle_map(b'{"trust_domains": {}}', "").domains == {}


def test_a_domain_without_keys_is_valid_and_trusts_nobody() -> None:
    assert parse_bundle_map(bundle_map({"shop.example": bundle()}), "").domains == {"shop.example": frozenset()}


def test_other_members_are_ignored(shop) -> None:
    more = key(shop, kid="1", crv="P-256", x="AA", y="AA")
    document = {"trust_domains": {"shop.example": {"keys": [more], "spiffe_refresh_hint": 60}}, "version": 2}
    assert parse_bundle_map(json.dumps(document).encode(), "").domains == {"shop.example": {shop.der}}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kty": "oct"}, "kty: is 'oct'; write RSA or EC"),
        ({"kty": None}, "kty: is None; write RSA or EC"),
        ({"use": "jwt-svid"}, "use: is 'jwt-svid'; write \"x509-svid\""),
        ({"use": None}, 'use: is None; write "x509-svid"'),
        ({"x5c": None}, "x5c: has 0 certificates; write exactly one"),
        ({"x5c": []}, "x5c: has 0 certificates; write exactly one"),
        ({"x5c": ["AA==", "AA=="]}, "x5c: has 2 certificates; write exactly one"),
        ({"x5c": ["AA=="]}, "x5c[0]: is no certificate; write its DER in base64"),
        ({"x5c": ["not base64"]}, "x5c[0]: is no certificate; write its DER in base64"),
        ({"x5c": [7]}, "x5c[0]: is a number; write a string"),
        ({"x5c": "AA=="}, "x5c: is a string; write a list"),
    ],
)
def test_an_invalid_key_makes_the_map_invalid_and_its_place_is_named(shop, changes, text) -> None:
    document = {"trust_domains": {"shop.example": {"keys": [key(shop), key(shop, **changes)]}}}
    assert f"trust_domains['shop.example'].keys[1].{text}" in problem(document)


def test_two_certificates_in_one_entry_are_refused(shop, bank) -> None:
    both = base64.b64encode(shop.der + bank.der).decode()
    document = {"trust_domains": {"shop.example": {"keys": [key(shop, x5c=[both])]}}}
    assert "x5c[0]: is no certificate" in problem(document)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], "top level: is a list; write"),
        ({}, "trust_domains: is missing"),
        ({"trust_domains": []}, "trust_domains: is a list; write an object"),
        ({"trust_domains": {"Shop": {"keys": []}}}, "trust_domains['Shop']: is no trust domain"),
        ({"trust_domains": {"": {"keys": []}}}, "trust_domains['']: is no trust domain"),
        ({"trust_domains": {"a": None}}, "trust_domains['a']: is null; write an object"),
        ({"trust_domains": {"a": {}}}, "trust_domains['a'].keys: is missing"),
        ({"trust_domains": {"a": {"keys": {}}}}, "trust_domains['a'].keys: is an object; write a list"),
        ({"trust_domains": {"a": {"keys": [1]}}}, "trust_domains['a'].keys[0]: is a number; write an object"),
        ({"trust_domains": {"a": {"keys": [], "spiffe_sequence": "1"}}}, "spiffe_sequence: is a string; write a whole"),
        ({"trust_domains": {"a": {"keys": [], "spiffe_sequence": 1.5}}}, "spiffe_sequence: is a number; write a whole"),
    ],
)
def test_an_invalid_document_is_refused_with_its_place(document, text) -> None:
    assert text in problem(document)


def test_a_trust_domain_that_is_there_twice_makes_the_map_invalid(shop, bank) -> None:
    first, second = (json.dumps(bundle(each)) for each in (shop, bank))
    with pytest.raises(ValueError, match=r"trust_domains: has 'shop\.example' more than once"):
        parse_bundle_map(f'{{"trust_domains": {{"shop.example": {first}, "shop.example": {second}}}}}'.encode(), "")


@pytest.mark.parametrize("document", [b"", b"{", b"\xff\xfe", b'{"trust_domains": {"a": 1e999}'])
def test_a_text_that_is_no_json_is_refused(document) -> None:
    with pytest.raises(ValueError, match=r"no valid JSON at line|no text in UTF-8"):
        parse_bundle_map(document, "")


def test_many_problems_are_summed_up() -> None:
    assert problem({"trust_domains": {f"A{n}": {"keys": []} for n in range(9)}}).endswith("; and 4 more")
