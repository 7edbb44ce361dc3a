"""Random meshes, with which grpcio's client and ours must do the same: refuse, route, hash and keep sessions.

TRXDS_SEEDS=100-109 draws other meshes than usual. A case that fails prints its resources.
"""

import base64
import os

import pytest
from support.meshes_compared import codes_and_hosts, differences, met, named_servers
from support.random_mesh import CLUSTERS, HOSTS, Case, Draws, endpoints_case, routes_case
from support.random_sessions import sessions_case

from trxds.testing import resources as xds

pytestmark = pytest.mark.long

FIRST, _, LAST = os.environ.get("TRXDS_SEEDS", "0-1").partition("-")
SEEDS = range(int(FIRST), int(LAST or FIRST) + 1)
each_seed = pytest.mark.parametrize("seed", SEEDS)


@each_seed
async def test_both_refuse_and_match_the_same_routes(seed):
    draw = Draws(seed)
    cases = [routes_case(draw, number) for number in range(300)]
    async with named_servers(*CLUSTERS) as addresses:
        shared = [xds.endpoints(name, xds.locality(addresses[name])) for name in CLUSTERS]
        found = await differences(cases, codes_and_hosts, *map(xds.cluster, CLUSTERS), *shared)
    assert found == []


@each_seed
async def test_both_keep_the_same_sessions_and_set_the_same_cookies(seed):
    def kept(outcomes):
        """Which host if it is always the same, for the choice of the others is each client's; and the cookies set."""
        codes, hosts = codes_and_hosts(outcomes)
        cookies = {described(cookie, reply) for _, reply, cookies in outcomes for cookie in cookies}
        return codes, hosts if len(hosts) == 1 else "several", cookies

    def described(cookie, reply):
        """Its name, cluster and attributes, and whether it names the host that answered."""
        name, _, rest = cookie.partition("=")
        value, _, attributes = rest.partition(";")
        host, _, cluster = base64.b64decode(value.strip('"')).decode().partition(";")
        return name, cluster, attributes, host == addresses[reply]

    draw = Draws(seed)
    async with named_servers(*HOSTS) as addresses:
        cases = [sessions_case(draw, number, list(addresses.values())) for number in range(50)]
        found = await differences(cases, kept)
    assert found == []


@each_seed
async def test_both_refuse_the_same_clusters_and_endpoints_and_meet_the_same_hosts(seed):
    draw = Draws(seed)
    async with named_servers(*HOSTS) as addresses:
        cases = [endpoints_case(draw, number, list(addresses.values())) for number in range(100)]
        found = await differences(cases, met)
    assert found == []


@each_seed
async def test_both_send_each_key_to_the_same_host_of_a_ring(seed):
    draw = Draws(seed)
    async with named_servers(*HOSTS) as addresses:
        cases = [ring_case(draw, number, list(addresses.values())) for number in range(30)]
        found = await differences(cases, codes_and_hosts)
    assert found == []


def ring_case(draw, number, addresses):
    """A ring of random hosts, and calls with random keys."""
    name = f"c{number}"
    rest = draw.sample(addresses, draw.randint(2, len(addresses)))
    localities = []
    while rest:
        size = draw.randint(1, 4)
        localities.append(ring_locality(draw, rest[:size]))
        rest = rest[size:]
    min_size, max_size = draw.choice([(1024, 4096), (1024, 4096), (1, 4096), (7, 7), (1, 3), (2**23, 2**23)])
    ring = {"minimum_ring_size": min_size, "maximum_ring_size": max_size}
    route = xds.route(name)
    route["route"]["hash_policy"] = draw.sample([hash_of("x-a"), hash_of("x-b"), hash_of("x-a", terminal=True)], 2)
    resources = [
        xds.listener(f"case-{number}", routes=f"r-{number}"),
        xds.routes(f"r-{number}", route),
        xds.cluster(name) | {"lb_policy": "RING_HASH", "ring_hash_lb_config": ring},
        xds.endpoints(name, *localities),
    ]
    keys = [(str(draw.random()), str(draw.random())) for _ in range(100)]
    calls = [{"path": "/a/b", "metadata": [("x-a", one), ("x-b", other), ("x-b", one)]} for one, other in keys]
    return Case(f"case-{number}", resources, calls)


def ring_locality(draw, hosts):
    """Its place by name is random. Hash keys are unique: which of two equal ones counts is each client's choice."""
    health = {host: draw.choice(["HEALTHY"] * 4 + ["DRAINING", "UNHEALTHY"]) for host in hosts[1:]}
    made = xds.locality(*hosts, zone=str(draw.random()), weight=draw.choice([1, 1, 2, 7, 12_345]), health=health)
    for each in made["lb_endpoints"]:
        each["load_balancing_weight"] = draw.choice([1, 1, 1, 3, 1_000])
        if draw.chance(0.3):
            each["metadata"] = {"filter_metadata": {"envoy.lb": {"hash_key": draw.choice(["", 5, str(draw.random())])}}}
    return made


def hash_of(header, *, terminal=False):
    return {"header": {"header_name": header}, "terminal": terminal}
