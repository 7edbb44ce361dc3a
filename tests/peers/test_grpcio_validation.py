"""Random changes of valid resources, of which grpcio's client and ours must refuse the same.

TRXDS_SEEDS=100-109 draws other changes than usual. A difference says what was changed, and both verdicts.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio
from support.mutated_resources import CERTIFICATE_PROVIDERS, draw_resource
from support.random_mesh import Draws

from trxds.client.shared_xds_client import parse_context
from trxds.resources.filters import HTTP_FILTERS
from trxds.resources.types import CDS, EDS, LDS, RDS
from trxds.testing import ManagementServer
from trxds.testing import resources as xds

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
RESOURCES = 90  # below the hundred streams that the control plane allows: each target of grpcio's client has one
FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0-1").partition("-")
SEEDS = range(int(FIRST), int(LAST or FIRST) + 1)

# What only one of the two refuses, by its error's text; docs/grfc-map.md has the reasons.
WE_ALONE = (
    "transport_socket_matches error:feature unsupported",  # A29: not supported; the wrong security would be worse
    "match_typed_subject_alt_names error:feature unsupported",  # the same
    "per_host_thresholds[0].max_connections error:must be greater than 0",  # A105; not in grpcio 1.85
    "base_interval error:must be greater than 0",  # A44
    "failure_percentage_threshold error:value must be <= 100",  # A50
    "error_utilization_penalty error:value must be finite",
    "minimum_ring_size error:cannot be greater than maximum_ring_size",  # if it is the default, as in grpc-go and Envoy
    "socket_address.port_value error:invalid port",  # of LOGICAL_DNS; grpcio finds out when it connects
)
GRPCIO_ALONE = (
    "ignore_case error:not supported for regex matcher",  # A63
    "field:lb_policy error:LB policy is not supported",  # CLUSTER_PROVIDED of an aggregate, and LEAST_REQUEST (A48)
    "field:load_balancing_policy",  # of an aggregate, where we do not look at it
)


@pytest.mark.parametrize("kind", [LDS, RDS, CDS, EDS], ids=lambda kind: kind.kind)
@pytest.mark.parametrize("seed", SEEDS)
async def test_both_refuse_the_same_changes(kind, seed):
    draw = Draws(f"{kind.kind} {seed}")
    drawn = [draw_resource(draw, kind.kind, number) for number in range(RESOURCES)]
    theirs = await judged_by_grpcio(drawn, kind.type_url)
    context = parse_context(CERTIFICATE_PROVIDERS, {}, HTTP_FILTERS)
    seen, differences = Counter(), []
    for each in drawn:
        if each.name not in theirs:
            continue  # the cluster that leads to these endpoints is refused
        state, error = theirs[each.name]
        refused = kind.read(each.resource, context).errors
        seen[state] += 1
        if bool(refused) != (state == "NACKED") and not is_known(refused, error):
            differences.append((each.changes, refused, error))
    assert differences == []
    assert seen["ACKED"] > RESOURCES / 5 and seen["NACKED"] > RESOURCES / 20


def is_known(ours, theirs):
    return all(error.endswith(WE_ALONE) for error in ours) if ours else any(text in theirs for text in GRPCIO_ALONE)


async def judged_by_grpcio(drawn, type_url):
    """Return state and error of each resource, by name."""
    plane = ManagementServer()
    plane.put(*(resource for each in drawn for resource in (each.resource, *each.others)))
    targets = [each.target for each in drawn]
    if drawn[0].kind in ("CDS", "EDS"):  # one listener has routes to all clusters
        routes = (xds.route(cluster, prefix=f"/{number}") for number, cluster in enumerate(targets))
        plane.put(xds.listener("shop", routes="routes"), xds.routes("routes", *routes))
        targets = ["shop"]
    order = {"targets": [f"xds:///{each}" for each in targets], "type": type_url, "resources": len(drawn)}
    async with plane.serve() as address:
        bootstrap = xds.bootstrap(address) | {"certificate_providers": dict.fromkeys(CERTIFICATE_PROVIDERS, PROVIDER)}
        done = await trio.run_process(
            [sys.executable, str(HERE / "grpcio_resource_states.py")],
            stdin=json.dumps(order).encode(),
            capture_stdout=True,
            capture_stderr=True,  # it logs each refused resource
            env={**os.environ, "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(bootstrap)},
        )
    return {name: (state, error) for name, state, error in json.loads(done.stdout)}


PROVIDER = {
    "plugin_name": "file_watcher",
    "config": {"ca_certificate_file": "/none", "refresh_interval": "600s"},
}
