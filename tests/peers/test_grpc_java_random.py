"""Random meshes, with which grpc-java's client and ours must do the same: refuse resources and route calls.

TRXDS_SEEDS=100-109 draws other meshes than usual. A case that fails prints its resources.
"""

import os
import re

import pytest
from support.meshes_compared import codes_and_hosts, differences, grpc_java_outcomes, met, named_servers
from support.random_mesh import CLUSTERS, DEAD, HOSTS, Case, Draws, endpoints_case, routes_case
from support.random_mesh_for_java import for_grpc_java
from xxhash import xxh64_intdigest

from trxds.testing import resources as xds

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("java_programs")]

FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0").partition("-")
each_seed = pytest.mark.parametrize("seed", range(int(FIRST), int(LAST or FIRST) + 1))


@each_seed
async def test_both_refuse_and_match_the_same_routes(seed):
    draw = Draws(seed)
    cases = [for_grpc_java(routes_case(draw, number)) for number in range(300)]
    async with named_servers(*CLUSTERS) as addresses:
        shared = [xds.endpoints(name, xds.locality(addresses[name])) for name in CLUSTERS]
        more = [*map(xds.cluster, CLUSTERS), *shared]
        found = await differences(cases, codes_and_hosts, *more, peer=grpc_java_outcomes)
    assert found == []


@each_seed
async def test_both_refuse_the_same_clusters_and_endpoints_and_meet_the_same_hosts(seed):
    draw = Draws(seed)
    async with named_servers(*HOSTS) as addresses:
        cases = [for_grpc_java(endpoints_case(draw, number, list(addresses.values()))) for number in range(60)]
        found = await differences(cases, met, peer=grpc_java_outcomes)
    assert found == []


@each_seed
async def test_both_send_each_key_to_the_same_host_of_a_ring(seed):
    draw = Draws(seed)
    async with named_servers(*HOSTS) as addresses:
        cases = [ring_case(draw, number, list(addresses.values())) for number in range(20)]
        found = await differences(cases, codes_and_hosts, peer=grpc_java_outcomes)
    assert found == []


def ring_case(draw, number, addresses):
    """A ring of random hosts, of which one may be dead, and calls with random keys.

    grpc-java hashes the address with a slash before it, which is our hash_key, and it has an order of its own. So each
    host has a whole number of places: the weights are powers of 2, and so is their sum.
    """
    name = f"c{number}"
    hosts = draw.sample([*addresses, DEAD], draw.randint(2, 8))
    weights = [64]
    while len(weights) < len(hosts):
        weights.sort()
        half = weights.pop() // 2
        weights += [half, half]
    draw.shuffle(weights)
    made = xds.locality(*hosts, weight=draw.choice([1, 4]))
    for each, host, weight in zip(made["lb_endpoints"], hosts, weights, strict=True):
        each["load_balancing_weight"] = weight
        each["metadata"] = {"filter_metadata": {"envoy.lb": {"hash_key": f"/{host}"}}}
    ring = {"minimum_ring_size": draw.choice([1024, 1500, 2048]), "maximum_ring_size": 4096}
    header = {"header_name": "x-a"}
    if is_rewritten := draw.chance(0.4):
        header["regex_rewrite"] = {"pattern": {"regex": "[0-4]+"}, "substitution": "_"}
    route = xds.route(name)
    # One hash at most, or the first one is terminal: of two grpc-java makes another one than A42.
    last = {"header": {"header_name": "x-b"}}
    route["route"]["hash_policy"] = draw.choice([[{"header": header}], [{"header": header, "terminal": True}, last]])
    resources = [
        xds.listener(f"case-{number}", routes=f"r-{number}"),
        xds.routes(f"r-{number}", route),
        xds.cluster(name) | {"lb_policy": "RING_HASH", "ring_hash_lb_config": ring},
        xds.endpoints(name, made),
    ]
    keys = [ring_key(draw, is_rewritten) for _ in range(60)]
    calls = [{"path": "/a/b", "metadata": [("x-a", one), ("x-a", other), ("x-b", other)]} for one, other in keys]
    return Case(f"case-{number}", resources, calls, warm=True)


def ring_key(draw, is_rewritten):
    """Two values whose hash is not above all of the ring, where grpc-java takes the last entry."""
    while True:
        values = str(draw.random()), str(draw.random())
        key = re.sub("[0-4]+", "_", ",".join(values)) if is_rewritten else ",".join(values)
        if not 2**63 - 2**57 < xxh64_intdigest(key.encode()) < 2**63:  # its numbers have a sign
            return values
