"""UpstreamTlsContext: what it becomes, what is refused, and which peers its names allow (A29, A82, A101)."""

from __future__ import annotations

from typing import Any

import pytest

from trxds.resources import protos
from trxds.resources.matchers import Contains, Exact, Pattern, Prefix, Suffix
from trxds.resources.peer_names import wrong_peer
from trxds.resources.regex import Regex
from trxds.resources.types import CDS, ParseContext
from trxds.resources.upstream_tls import UpstreamTls

TLS = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
AT = f"transport_socket.typed_config.value[{TLS}]"
COMMON = f"{AT}.common_tls_context"
CONTEXT = ParseContext(certificate_providers=frozenset({"mesh", "own"}))
MESH = {"ca_certificate_provider_instance": {"instance_name": "mesh"}}
NO_ROOTS = f"field:{COMMON} error:no CA certificate provider instance configured"


def cluster(common: Any, **fields: Any) -> Any:
    typed = {"@type": f"type.googleapis.com/{TLS}", "common_tls_context": common, **fields}
    return CDS.read(
        protos.from_json(
            {
                "@type": CDS.type_url,
                "name": "a",
                "type": "EDS",
                "eds_cluster_config": {"eds_config": {"ads": {}}},
                "transport_socket": {"name": "tls", "typed_config": typed},
            }
        ),
        CONTEXT,
    )


def tls_of(common: Any, **fields: Any) -> UpstreamTls:
    parsed = cluster(common, **fields)
    assert parsed.errors == ()
    found: UpstreamTls = parsed.value.tls
    return found


def validated(**fields: Any) -> dict[str, Any]:
    return {"validation_context": {**MESH, **fields}}


# -- parsing


def test_upstream_tls_needs_only_a_source_of_roots() -> None:
    assert tls_of(validated()) == UpstreamTls("mesh")


def test_upstream_tls_may_use_the_systems_roots() -> None:
    assert tls_of({"validation_context": {"system_root_certs": {}}}) == UpstreamTls("")


def test_a_provider_goes_before_the_systems_roots() -> None:
    assert tls_of(validated(system_root_certs={})).roots == "mesh"


def test_upstream_tls_may_use_the_combined_validation_context() -> None:
    assert tls_of({"combined_validation_context": {"default_validation_context": MESH}}) == UpstreamTls("mesh")


@pytest.mark.parametrize("combined", [False, True])
def test_the_older_fields_of_a_roots_provider_are_read(combined: bool) -> None:
    older = {"validation_context_certificate_provider_instance": {"instance_name": "mesh"}}
    assert tls_of({"combined_validation_context": older} if combined else older).roots == "mesh"


@pytest.mark.parametrize(
    "field", ["tls_certificate_provider_instance", "tls_certificate_certificate_provider_instance"]
)
def test_the_clients_certificate_has_its_provider(field: str) -> None:
    assert tls_of({**validated(), field: {"instance_name": "own"}}).identity == "own"


def test_every_kind_of_name_is_read() -> None:
    names = [
        {"exact": "a"},
        {"prefix": "b", "ignore_case": True},
        {"suffix": "c"},
        {"contains": "d"},
        {"safe_regex": {"regex": "e+"}},
    ]
    assert tls_of(validated(match_subject_alt_names=names)).names == (
        Exact("a"),
        Prefix("b", True),
        Suffix("c"),
        Contains("d"),
        Pattern(Regex("e+")),
    )


def test_the_sni_fields_of_upstream_tls_are_read() -> None:
    found = tls_of(validated(), sni="cart", auto_host_sni=True, auto_sni_san_validation=True)
    assert (found.sni, found.auto_sni, found.sni_is_name) == ("cart", True, True)


UNSUPPORTED: dict[str, tuple[Any, str]] = {
    "tls_params": ({"tls_params": {}}, "tls_params"),
    "custom_handshaker": ({"custom_handshaker": {"name": "x"}}, "custom_handshaker"),
    "tls_certificates": ({"tls_certificates": [{}]}, "tls_certificates"),
    "sds": ({"tls_certificate_sds_secret_configs": [{}]}, "tls_certificate_sds_secret_configs"),
    "spki": (validated(verify_certificate_spki=["x" * 44]), "validation_context.verify_certificate_spki"),
    "hash": (validated(verify_certificate_hash=["x" * 64]), "validation_context.verify_certificate_hash"),
    "timestamp": (
        validated(require_signed_certificate_timestamp=True),
        "validation_context.require_signed_certificate_timestamp",
    ),
    "crl": (validated(crl={}), "validation_context.crl"),
    "validator": (validated(custom_validator_config={"name": "x"}), "validation_context.custom_validator_config"),
    "typed names": (
        validated(match_typed_subject_alt_names=[{"san_type": "DNS", "matcher": {"exact": "a"}}]),
        "validation_context.match_typed_subject_alt_names",
    ),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_a_tls_field_that_is_unsafe_to_ignore_is_rejected(case: str) -> None:
    common, path = UNSUPPORTED[case]
    assert cluster({**validated(), **common}).errors == (f"field:{COMMON}.{path} error:feature unsupported",)


def test_a_required_certificate_timestamp_may_be_false() -> None:
    assert tls_of(validated(require_signed_certificate_timestamp=False)) == UpstreamTls("mesh")


@pytest.mark.parametrize("common", [{}, {"validation_context": {}}, {"validation_context": {"trusted_ca": {}}}])
def test_upstream_tls_without_roots_is_rejected(common: Any) -> None:
    assert cluster(common).errors == (NO_ROOTS,)


def test_roots_by_sds_are_refused() -> None:
    unsupported = f"field:{COMMON}.validation_context_sds_secret_config error:feature unsupported"
    assert cluster({"validation_context_sds_secret_config": {}}).errors == (unsupported, NO_ROOTS)


def test_providers_must_be_in_the_bootstrap() -> None:
    unknown = {"instance_name": "vendor"}
    common = {
        "validation_context": {"ca_certificate_provider_instance": unknown},
        "tls_certificate_provider_instance": unknown,
    }
    text = "error:unrecognized certificate provider instance name: vendor"
    assert cluster(common).errors == (
        f"field:{COMMON}.validation_context.ca_certificate_provider_instance.instance_name {text}",
        f"field:{COMMON}.tls_certificate_provider_instance.instance_name {text}",
    )


def test_subject_alt_names_must_be_valid_matchers() -> None:
    names = [{}, {"safe_regex": {"regex": "a"}, "ignore_case": True}, {"safe_regex": {"regex": "("}}]
    first, second, third = cluster(validated(match_subject_alt_names=names)).errors
    at = f"field:{COMMON}.validation_context.match_subject_alt_names"
    assert first == f"{at}[0] error:invalid string matcher"
    assert second == f"{at}[1].ignore_case error:not supported for regex matcher"
    assert third.startswith(f"{at}[2] error:cannot create string matcher: Invalid regex string")


def test_a_name_to_send_has_255_characters_at_most() -> None:
    assert tls_of(validated(), sni="x" * 255).sni == "x" * 255
    assert cluster(validated(), sni="x" * 256).errors == (f"field:{AT}.sni error:longer than 255 characters",)


# -- which name is sent


@pytest.mark.parametrize(
    ("auto", "hostname", "sent"),
    [
        (False, "own", "sni"),
        (True, "own", "own"),
        (True, "own:8080", "own"),
        (True, "[fd00::1]:8080", "fd00::1"),
        (True, "fd00::1", "fd00::1"),
        (True, "", "sni"),
    ],
)
def test_an_endpoints_own_name_goes_first_if_it_may(auto: bool, hostname: str, sent: str) -> None:
    assert UpstreamTls("mesh", sni="sni", auto_sni=auto).for_host(hostname) == UpstreamTls("mesh", sni=sent)


# -- which peers are allowed


def peer(*names: tuple[str, str]) -> dict[str, Any]:
    return {"subjectAltName": names}


def allows(*names: Any, peer_name: str, kind: str = "DNS") -> bool:
    return wrong_peer(UpstreamTls(names=names), peer((kind, peer_name))) is None


def test_every_verified_peer_matches_an_empty_list_of_names() -> None:
    assert wrong_peer(UpstreamTls(), {}) is None


def test_a_peer_matches_by_one_name_of_one_kind() -> None:
    found = peer(("DNS", "x"), ("URI", "spiffe://mesh/cart"))
    assert wrong_peer(UpstreamTls(names=(Exact("a"), Prefix("spiffe://mesh/"))), found) is None


def test_a_peer_of_other_names_is_refused_by_its_names() -> None:
    assert wrong_peer(UpstreamTls(names=(Exact("a"),)), peer(("DNS", "b"), ("URI", "c"))) == (
        'certificate check failure: the cluster allows none of the peer\'s names (b, c), but "a"'
    )


def test_a_peer_without_names_is_refused() -> None:
    assert "(none at all)" in (wrong_peer(UpstreamTls(names=(Exact("a"),)), {}) or "")


def test_an_empty_name_matches_nothing() -> None:
    assert not allows(Prefix(""), peer_name="")


def test_other_kinds_of_name_do_not_count() -> None:
    assert not allows(Exact("a"), peer_name="a", kind="DirName")


@pytest.mark.parametrize(
    ("host", "name", "allowed"),
    [
        ("cart.example.com", "cart.example.com", True),
        ("Cart.Example.com.", "cart.example.COM", True),
        ("cart.example.com", "*.example.com", True),
        ("a.cart.example.com", "*.example.com", False),
        ("example.com", "*.example.com", False),
        ("cart.example.com", "*.other.com", False),
        ("cart.mesh", "*.mesh", True),
        ("a.cart.mesh", "*.mesh", False),
        ("mesh", "*.mesh", False),
        ("cart.example.com", "c*.example.com", False),
        ("cart.example.com", "cart.*.com", False),
        (".example.com", ".example.com", False),
        ("cart..example.com", "cart..example.com", False),
        ("cart.example.com..", "cart.example.com", False),
        ("cart.example.com", "cart.example.com.", True),
    ],
)
def test_an_exact_host_name_matches_wildcards_of_certificates(host: str, name: str, allowed: bool) -> None:
    assert allows(Exact(host), peer_name=name) is allowed


def test_other_matchers_take_a_name_as_it_stands() -> None:
    assert not allows(Prefix("cart."), peer_name="*.example.com")
    assert allows(Suffix(".example.com"), peer_name="*.example.com")
    assert allows(Contains("EXAMPLE", True), peer_name="*.example.com")
    assert allows(Pattern(Regex(r"\*\.example\..*")), peer_name="*.example.com")


def test_an_exact_uri_has_no_wildcards_and_its_case_counts() -> None:
    assert not allows(Exact("spiffe://a/b"), peer_name="spiffe://A/b", kind="URI")
    assert allows(Exact("spiffe://a/b", True), peer_name="spiffe://A/b", kind="URI")


@pytest.mark.parametrize(
    ("written", "canonical"), [("2001:DB8:0:0:0:0:0:1", "2001:db8::1"), ("10.0.0.1", "10.0.0.1"), ("odd", "odd")]
)
def test_addresses_are_compared_in_their_canonical_form(written: str, canonical: str) -> None:
    assert allows(Exact(canonical), peer_name=written, kind="IP Address")


def test_the_sni_replaces_the_list_of_names_and_is_a_dns_name() -> None:
    tls = UpstreamTls(names=(Exact("a"),), sni="cart.example.com", sni_is_name=True)
    assert wrong_peer(tls, peer(("DNS", "*.example.com"))) is None
    assert wrong_peer(tls, peer(("DNS", "a"))) is not None
    assert wrong_peer(tls, peer(("URI", "cart.example.com"))) is not None


def test_the_list_of_names_counts_if_no_sni_was_sent() -> None:
    assert wrong_peer(UpstreamTls(names=(Exact("a"),), sni_is_name=True), peer(("DNS", "a"))) is None
