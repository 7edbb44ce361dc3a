"""grpc-java's xDS server with random routes, RBAC filters and TLS: its own client and ours must be answered alike.

TRXDS_SEEDS=100-109 draws others than usual.
"""

import json
import os
from random import Random

import pytest
from support import random_server_rules
from support.java_peers import running
from support.pki import Authority
from support.random_certificates import TLS
from support.random_server_rules import METHODS, NAMES
from support.two_clients import Order, outcomes

from trxds.testing import ManagementServer
from trxds.testing import resources as xds

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("java_programs")]

FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0").partition("-")
SERVERS = 6


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST or FIRST) + 1))
async def test_both_clients_are_answered_alike(seed, tmp_path):
    draw, plane = Random(seed), ManagementServer()
    async with plane.serve() as ads:
        bootstrap = {**xds.bootstrap(ads), "certificate_providers": certificate_providers(tmp_path)}
        tls = [draw.choice([None, *map(server_tls, (True, False))]) for _ in range(SERVERS)]
        servers = [f"server-{number}" for number in range(SERVERS)]
        for name, context in zip(servers, tls, strict=True):
            plane.put(random_server_rules.listener(draw, name, context))
        async with running("XdsBackend", json.dumps(bootstrap), ",".join(servers), *METHODS) as program:
            orders = []
            for server, address, context in zip(servers, program.address.split(","), tls, strict=True):
                for client in NAMES:
                    name = f"{client}-{server}"
                    plane.put(*mesh(name, address, client if context else None))
                    orders.append(Order(f"xds:///{name}", [random_server_rules.call(draw) for _ in range(30)]))
            how = {"GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(bootstrap), "XDS_CREDENTIALS": "1"}
            ours, theirs = [await outcomes(client, orders, **how) for client in ("ours", "grpc-java")]
    found = [[[(each.code, each.message) for each in calls] for calls in done] for done in (ours, theirs)]
    assert found[0] == found[1]
    assert {"OK", "PERMISSION_DENIED", "UNAVAILABLE"} >= {code for calls in found[0] for code, _ in calls} >= {"OK"}


def certificate_providers(folder):
    """Those of the server, and of the clients, which are of one authority."""
    authority = Authority()
    (folder / "roots").write_bytes(authority.pem)
    found = {}
    for name in ("server", *NAMES):
        chain, key = authority.issue(names=[name]).write(folder)
        files = {"ca_certificate_file": str(folder / "roots"), "certificate_file": chain, "private_key_file": key}
        found[name] = {"plugin_name": "file_watcher", "config": files}
    return found


def server_tls(wants_certificate):
    common = {"tls_certificate_provider_instance": {"instance_name": "server"}}
    if wants_certificate:
        common["validation_context"] = {"ca_certificate_provider_instance": {"instance_name": "server"}}
    return {"common_tls_context": common, "require_client_certificate": wants_certificate}


def mesh(name, address, client):
    """A cluster with that one host, and with the certificate of that client if there is TLS."""
    cluster = xds.cluster(name)
    if client:
        instance = {"instance_name": client}
        validation = {
            "ca_certificate_provider_instance": instance,
            "match_subject_alt_names": [{"exact": "server"}],
        }
        common = {"validation_context": validation, "tls_certificate_provider_instance": instance}
        socket_config = {"@type": TLS, "common_tls_context": common}
        cluster |= {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": socket_config}}
    routes = xds.listener(name, routes=name), xds.routes(name, xds.route(name))
    return [*routes, cluster, xds.endpoints(name, xds.locality(address))]
