"""A mesh whose hosts speak TLS, and a channel with xDS credentials to it."""

from __future__ import annotations

import ssl

import trustme
from support.mesh import Mesh

import trxds
from trxds.testing import resources as xds

TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
EMAIL = "cart@mesh.example"


def server_tls(ca: trustme.CA, *names: str, mutual: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*names).configure_cert(context)
    context.set_alpn_protocols(["h2"])
    if mutual:
        ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def asked_names(context: ssl.SSLContext) -> list[str | None]:
    """Record the SNI of each handshake from now on."""
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    return names


async def one_host(mesh: Mesh, tls: ssl.SSLContext | None, cluster: str = "cart", **endpoint: str) -> str:
    """Serve the cluster's only host, with or without TLS."""
    address = await mesh.add_host(tls=tls)
    locality = xds.locality(address)
    locality["lb_endpoints"][0]["endpoint"].update(endpoint)
    mesh.endpoints(cluster, locality)
    return address


def by(roots: str | None = "mesh", identity: str | None = None, names=(), **fields) -> dict:
    """Return a cluster's transport_socket."""
    validation: dict = {"match_subject_alt_names": list(names)}
    if roots is None:
        validation["system_root_certs"] = {}
    else:
        validation["ca_certificate_provider_instance"] = {"instance_name": roots}
    common: dict = {"validation_context": validation}
    if identity is not None:
        common["tls_certificate_provider_instance"] = {"instance_name": identity}
    return {"name": "tls", "typed_config": {"@type": TLS, "common_tls_context": common, **fields}}


def secured_cluster(mesh: Mesh, socket: dict | None, name: str = "cart") -> None:
    cluster = xds.cluster(name)
    if socket is not None:
        cluster["transport_socket"] = socket
    mesh.plane.put(cluster)


def provider(**files: str) -> dict:
    return {"plugin_name": "file_watcher", "config": files}


def xds_channel(mesh: Mesh, pem, fallback=None, sticky_aggregates=False, **more):
    providers = {
        "mesh": provider(ca_certificate_file=pem("ca")),
        "own": provider(certificate_file=pem("cert"), private_key_file=pem("key")),
        **more,
    }
    bootstrap = {**mesh.bootstrap, "certificate_providers": providers}
    credentials = trxds.xds_credentials(fallback or trxds.insecure())
    return mesh.channel(bootstrap=bootstrap, credentials=credentials, sticky_aggregates=sticky_aggregates)
