"""Random certificates of hosts, and random rules of clusters for them (A29): which of these a client accepts.

A host's certificate may have expired, be for clients alone, have no names, or come from an authority below a root. Some
hosts want a certificate of the client, of which some are from an authority that the host does not know.
"""

from __future__ import annotations

import json
import ssl
from contextlib import AsyncExitStack
from ipaddress import ip_address
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from cryptography.x509 import IPAddress, ObjectIdentifier
from cryptography.x509.oid import ExtendedKeyUsageOID

from trxds.testing import ManagementServer, serve, unary
from trxds.testing import resources as xds

from .pki import DAY, Authority, Leaf
from .two_clients import Order, outcomes

TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
HOSTS = 8
_NAMES = ("cart.example", "shop.example", "*.w.example", "cart")
_URIS = ("spiffe://a.example/cart", "spiffe://b.example/shop", "https://cart.example/x")
_IPS = ("127.0.0.1", "10.0.0.1", "2001:db8::68")
_PURPOSES: tuple[tuple[ObjectIdentifier, ...], ...] = (
    *((), (), (ExtendedKeyUsageOID.SERVER_AUTH,), (ExtendedKeyUsageOID.CLIENT_AUTH,)),
    (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
)


class Certificates:
    """The authorities, and the files of certificate providers: one for each pair of roots and identity."""

    environ: ClassVar[dict[str, str]] = {}  # of the clients

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.roots = {"a": Authority("a"), "b": Authority("b")}
        self.issuers = {**self.roots, "below a": Authority("below a", self.roots["a"])}
        pems = {name: each.pem for name, each in self.roots.items()}
        for name, pem in {**pems, "ab": pems["a"] + pems["b"]}.items():
            (folder / f"{name}.pem").write_bytes(pem)
        self._identities = {name: each.issue(names=["client"]).write(folder) for name, each in self.issuers.items()}

    def providers(self) -> dict[str, Any]:
        """Of each root with each identity, since grpc-java wants both in each."""
        return {
            f"{roots} {identity}": {
                "plugin_name": "file_watcher",
                "config": {
                    "ca_certificate_file": str(self._folder / f"{roots}.pem"),
                    "certificate_file": chain,
                    "private_key_file": key,
                },
            }
            for roots in ("a", "b", "ab")
            for identity, (chain, key) in self._identities.items()
        }

    def leaf(self, draw: Random) -> Leaf:
        some = draw.sample([*_NAMES, *_URIS, *_IPS], draw.choice([0, 1, 2, 4]))
        return self.issuers[draw.choice(["a", "a", "below a", "b"])].issue(
            *(each for each in some if each in _URIS),
            names=[each for each in some if each in _NAMES],
            more=[IPAddress(ip_address(each)) for each in some if each in _IPS],
            common_name="cart.example",
            lasts=draw.choice([DAY, DAY, DAY, DAY, -DAY / 2]),
            purposes=draw.choice(_PURPOSES),
        )

    def server(self, draw: Random) -> ssl.SSLContext:
        context = self.leaf(draw).server_context(self._folder)
        if wants := draw.choice(["", "", "a", "b"]):
            context.load_verify_locations(self._folder / f"{wants}.pem")
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def matcher(draw: Random) -> dict[str, Any]:
    name = draw.choice([*_NAMES[:2], *_URIS, *_IPS[:2], "x.example"])
    kind = draw.choice(["exact", "exact", "prefix", "suffix", "contains", "safe_regex"])
    half = len(name) // 2
    text = {"exact": name, "prefix": name[:half], "suffix": name[half:], "contains": name[2:-2]}.get(kind)
    made = {kind: text} if text else {"safe_regex": {"regex": f"{name[:half]}.*"}}
    return {**made, "ignore_case": draw.random() < 0.3} if text else made


def mesh(draw: Random, name: str, address: str) -> list[Any]:
    roots, identity = draw.choice(["a", "a", "ab", "b"]), draw.choice(["", "a", "b", "below a"])
    validation = {
        "ca_certificate_provider_instance": {"instance_name": f"{roots} {identity or 'a'}"},
        "match_subject_alt_names": [matcher(draw) for _ in range(draw.choice([0, 0, 1, 2, 3]))],
    }
    common: dict[str, Any] = {"validation_context": validation}
    if identity:
        common["tls_certificate_provider_instance"] = {"instance_name": f"{roots} {identity}"}
    socket = {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {"@type": TLS, "common_tls_context": common},
    }
    cluster = xds.cluster(name) | {"transport_socket": socket}
    return [
        xds.listener(name, routes=name),
        xds.routes(name, xds.route(name)),
        cluster,
        xds.endpoints(name, xds.locality(address)),
    ]


async def differences(seed: int, certificates: Certificates, peer: str) -> list[Any]:
    """The clusters whose calls end well by one client only, each time they are made.

    On a busy machine a handshake of grpc-java's may last too long, so there are several times.
    """
    draw, plane = Random(seed), ManagementServer()
    async with plane.serve() as ads, AsyncExitStack() as servers:
        contexts = [certificates.server(draw) for _ in range(HOSTS)]
        hosts = [
            await servers.enter_async_context(serve({"/a/b": unary(_answer)}, tls=context)) for context in contexts
        ]
        meshes = {
            f"c-{number}": mesh(draw, f"c-{number}", hosts[number % HOSTS].address) for number in range(6 * HOSTS)
        }
        for made in meshes.values():
            plane.put(*made)
        bootstrap = xds.bootstrap(ads) | {"certificate_providers": certificates.providers()}
        found, met = list(meshes), set()
        for _ in range(3):
            orders = [Order(f"xds:///{name}", [{"path": "/a/b", "metadata": [], "timeout": 60}]) for name in found]
            how = {"GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(bootstrap), "XDS_CREDENTIALS": "1", **certificates.environ}
            ours, theirs = [await outcomes(client, orders, **how) for client in ("ours", peer)]
            met |= {outcome.code for (outcome,) in ours}
            ends = zip(found, ours, theirs, strict=True)
            found = [name for name, (one,), (other,) in ends if (one.code == "OK") != (other.code == "OK")]
            if not found:
                break
    assert met == {"OK", "UNAVAILABLE"}
    return [meshes[name] for name in found]


async def _answer(request: bytes, call: object) -> bytes:
    return b""
