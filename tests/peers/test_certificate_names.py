"""Which certificates of hosts gRPC's clients accept, by the names that the cluster allows or by the SNI (A29, A101)."""

import json
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from support.grpcio import grpcio_server
from support.two_clients import Order, outcomes

from trxds.testing import ManagementServer
from trxds.testing import resources as xds

TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
NAMES = ["cart.example", "*.w.example", "*.mesh", "10.0.0.1", "2001:db8::68"]


def exact(name: str) -> dict[str, Any]:
    return {"exact": name}


def sni(name: str, *allowed: dict[str, Any], endpoint: str = "", by_name: bool = True) -> dict[str, Any]:
    tls = {"sni": name, "auto_host_sni": bool(endpoint), "auto_sni_san_validation": by_name}
    return {"allowed": allowed, "hostname": endpoint, **tls}


# Not e-mail addresses of certificates, not matchers with an IPv6 address in capitals, and no names where an SNI has to
# match and none is sent: there grpcio 1.85 does something else than A29 and A101 say.
CASES: list[dict[str, Any]] = [
    {"allowed": []},
    *(
        {"allowed": [allowed]}
        for allowed in (
            *map(exact, ("cart.example", "CART.example.", "cart", "xcart.example", "")),
            *map(exact, ("a.w.example", "*.w.example", "a.w.example.", "a.b.w.example", "w.example", ".w.example")),
            *map(exact, ("cart.mesh", "CART.mesh", "*.mesh", "a.cart.mesh", "mesh", "*")),
            *map(exact, ("10.0.0.1", "10.0.0.2", "2001:db8::68", "2001:db8:0:0:0:0:0:68")),
            *({"prefix": prefix} for prefix in ("cart.", "Cart.", "a.", "10.0.", "")),
            *({"prefix": "CART", "ignore_case": True}, {"suffix": ".w.example"}, {"suffix": ".W.example"}),
            *({"contains": "DB8", "ignore_case": True}, {"contains": "DB8"}),
            *({"safe_regex": {"regex": regex}} for regex in ("cart", ".*rt[.]ex.*", r"\*\.mesh")),
        )
    ),
    {"allowed": [exact("x"), exact("cart.example")]},
    *map(sni, ("cart.example", "CART.example", "x.w.example", "x.w.example.", "x.mesh")),
    *map(sni, ("w.example", "mesh", "x.y.mesh", "10.0.0.1", "cart.example:80")),
    sni("cart.example", exact("other")),
    sni("other", exact("cart.example")),
    sni("other", endpoint="cart.example"),
    sni("other", endpoint="cart.example:443"),
    sni("cart.example", endpoint="other"),
    sni("other", exact("cart.example"), by_name=False),
    sni("cart.example", exact("other"), by_name=False),
]


async def test_grpcio_accepts_the_same_certificates(tmp_path: Path) -> None:
    assert await found("ours", CASES, tmp_path) == await found("grpcio", CASES, tmp_path)


@pytest.mark.usefixtures("go_programs")
async def test_grpc_go_accepts_the_same_certificates(tmp_path: Path) -> None:
    cases = [case for case in CASES if {"prefix": ""} not in case["allowed"]]  # which it refuses
    assert await found("ours", cases, tmp_path) == await found("grpc-go", cases, tmp_path)


# Only what a certificate has literally, in grpc-java; and an SNI without a period is neither sent nor compared there.
_NOT_FOR_JAVA = [
    *map(exact, ("CART.example.", "a.w.example", "a.w.example.", "cart.mesh", "CART.mesh")),
    *map(exact, ("2001:db8::68", "2001:db8:0:0:0:0:0:68")),
    {"prefix": ""},
]
_SNI_NOT_FOR_JAVA = {"CART.example", "x.w.example", "x.mesh", "mesh", "other", "10.0.0.1", "cart.example:80"}


@pytest.mark.usefixtures("java_programs")
async def test_grpc_java_accepts_the_same_certificates(tmp_path: Path) -> None:
    cases = [case for case in CASES if not any(each in _NOT_FOR_JAVA for each in case["allowed"])]
    cases = [
        case
        for case in cases
        if not case.get("auto_sni_san_validation") or (case["hostname"] or case["sni"]) not in _SNI_NOT_FOR_JAVA
    ]
    assert await found("ours", cases, tmp_path) == await found("grpc-java", cases, tmp_path)


async def found(client: str, cases: list[dict[str, Any]], tmp_path: Path) -> list[tuple[dict[str, Any], str]]:
    """Each case, and the code of a call that a client makes in it."""
    authority = trustme.CA()
    leaf = authority.issue_cert(*NAMES)
    files = {"roots": authority.cert_pem, "chain": leaf.cert_chain_pems[0]}
    for name, pem in files.items():
        pem.write_to_path(tmp_path / name)
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    (tmp_path / "key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    plane = ManagementServer()
    async with grpcio_server(str(tmp_path / "chain"), str(tmp_path / "key")) as address, plane.serve() as ads:
        for number, case in enumerate(cases):
            plane.put(*mesh(f"c-{number}", address, **case))
        # grpc-java wants a certificate of its own in each.
        keys = {"ca_certificate_file": "roots", "certificate_file": "chain", "private_key_file": "key"}
        roots = {"plugin_name": "file_watcher", "config": {key: str(tmp_path / file) for key, file in keys.items()}}
        bootstrap = xds.bootstrap(ads) | {"certificate_providers": {"roots": roots}}
        call = {"path": "/peer.Echo/unary", "metadata": [], "timeout": 60}
        done = await outcomes(
            client,
            [Order(f"xds:///c-{number}", [call]) for number in range(len(cases))],
            GRPC_XDS_BOOTSTRAP_CONFIG=json.dumps(bootstrap),
            XDS_CREDENTIALS="1",
            GRPC_EXPERIMENTAL_XDS_SNI="true",
        )
    codes = [outcome.code for (outcome,) in done]
    assert set(codes) == {"OK", "UNAVAILABLE"}
    return list(zip(cases, codes, strict=True))


def mesh(name: str, address: str, allowed: Any, hostname: str = "", **tls: Any) -> list[Any]:
    validation = {
        "ca_certificate_provider_instance": {"instance_name": "roots"},
        "match_subject_alt_names": list(allowed),
    }
    socket = {"@type": TLS, "common_tls_context": {"validation_context": validation}, **tls}
    endpoints = xds.endpoints(name, xds.locality(address))
    endpoints["endpoints"][0]["lb_endpoints"][0]["endpoint"]["hostname"] = hostname
    cluster = xds.cluster(name) | {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": socket}}
    return [xds.listener(name, routes=name), xds.routes(name, xds.route(name)), cluster, endpoints]
