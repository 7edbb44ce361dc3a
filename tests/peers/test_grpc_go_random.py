"""Random meshes, with which grpc-go's client and ours must do the same: refuse resources and route calls.

TRXDS_SEEDS=100-109 draws other meshes than usual. A case that fails prints its resources.
"""

import os

import pytest
from support.meshes_compared import codes_and_hosts, differences, grpc_go_outcomes, met, named_servers
from support.random_mesh import CLUSTERS, HOSTS, Draws, endpoints_case, routes_case
from support.random_mesh_for_go import for_grpc_go

from trxds.testing import resources as xds

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("go_programs")]

FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0").partition("-")
each_seed = pytest.mark.parametrize("seed", range(int(FIRST), int(LAST or FIRST) + 1))


@each_seed
async def test_both_refuse_and_match_the_same_routes(seed):
    draw = Draws(seed)
    cases = [for_grpc_go(routes_case(draw, number)) for number in range(300)]
    async with named_servers(*CLUSTERS) as addresses:
        shared = [xds.endpoints(name, xds.locality(addresses[name])) for name in CLUSTERS]
        more = [*map(xds.cluster, CLUSTERS), *shared]
        found = await differences(cases, codes_and_hosts, *more, peer=grpc_go_outcomes)
    assert found == []


@each_seed
async def test_both_refuse_the_same_clusters_and_endpoints_and_meet_the_same_hosts(seed):
    draw = Draws(seed)
    async with named_servers(*HOSTS) as addresses:
        cases = [for_grpc_go(endpoints_case(draw, number, list(addresses.values()))) for number in range(60)]
        found = await differences(cases, met, peer=grpc_go_outcomes)
    assert found == []
