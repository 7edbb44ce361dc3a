"""What is done to a client in the scale runs, and what the meter says of it: one function for each scenario."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import cores
from process import Process, child

from trxds.testing import resources as xds

Readings: TypeAlias = dict[str, float]
Resources: TypeAlias = list[dict[str, Any]]

# A client that used less CPU than this in a tenth of a second, three times, has done its work. To be asked for its
# readings costs it 1 to 2 ms on a slow machine.
QUIET = 0.004


@dataclass(frozen=True)
class Sizes:
    """How much of everything; `deep_changes` are those of a cluster with one endpoint."""

    idle_endpoints: int = 10_000
    ready_endpoints: int = 1_000
    clusters: int = 1_000
    changes: int = 10
    deep_changes: int = 100
    echoes: int = 2_000


@dataclass(frozen=True)
class Stage:
    """The processes of one run. `host` is the real one's address, and all of 127.0.0.0/8 leads there."""

    plane: Process
    client: Process
    host: str
    echo: str

    @property
    def port(self) -> str:
        return self.host.rpartition(":")[2]

    def put(self, resources: Resources) -> int:
        """Returns once the client has accepted them; how many bytes of resources it has been sent by then."""
        return int(self.plane.ask(json.dumps(resources)).split()[-1])

    def read(self, command: str = "read") -> Readings:
        said: Readings = json.loads(self.client.ask(command))
        return said

    def settled(self) -> Readings:
        """Once the client has nothing left to do; the steps are those of all the time until then."""
        readings, quiet = [self.read()], 0
        while quiet < 3:
            time.sleep(0.1)
            readings.append(self.read())
            quiet = quiet + 1 if readings[-1]["cpu"] - readings[-2]["cpu"] < QUIET else 0
        return {**readings[-1], **steps(*readings)}


@contextmanager
def stage(
    script: str, arguments: tuple[str, ...], host: str, echo: str, features: tuple[str, ...] = ()
) -> Iterator[Stage]:
    with child("scale_plane.py", core=cores.SERVER) as plane:
        bootstrap = json.dumps(xds.bootstrap(plane.address, node="bench", features=[*features]))
        environ = {**os.environ, "GRPC_XDS_BOOTSTRAP_CONFIG": bootstrap}
        with child(script, *arguments, environ=environ, core=cores.CLIENT) as client:
            yield Stage(plane, client, host, echo)


# -- resources


def lazy(name: str) -> dict[str, Any]:
    """A cluster whose hosts nobody connects before an RPC wants them, with the smallest ring."""
    return xds.cluster(name) | {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 1}}


def mesh(at: Stage, *clusters: dict[str, Any]) -> Resources:
    """The host that is near, and further clusters with a route to each."""
    names = [cluster["name"] for cluster in clusters]
    return [
        xds.listener("bench", routes="bench"),
        xds.routes("bench", *(xds.route(name, prefix=f"/{name}.") for name in names), xds.route("near")),
        xds.cluster("near"),
        xds.endpoints("near", xds.locality(at.host)),
        *clusters,
    ]


def many(cluster: str, addresses: list[str]) -> dict[str, Any]:
    """In ten localities."""
    share = -(-len(addresses) // 10)
    starts = range(0, len(addresses), share)
    return xds.endpoints(cluster, *(xds.locality(*addresses[at : at + share], zone=f"z{at}") for at in starts))


def idle_addresses(count: int) -> list[str]:
    return [f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}:50051" for n in range(count)]


def loopback_addresses(at: Stage, count: int) -> list[str]:
    """All of them lead to the one server."""
    return [f"127.1.{n // 250}.{n % 250 + 1}:{at.port}" for n in range(count)]


# -- scenarios


def first_rpc(at: Stage, sizes: Sizes) -> Readings:
    at.put(mesh(at))
    before = at.read()
    after = at.read("open")
    return {"first": after["took"], "first cpu": after["cpu"] - before["cpu"]}


def idle_endpoints(at: Stage, sizes: Sizes) -> Readings:
    """Cold, with the first RPC to a cluster beside; then one pod after another is replaced."""
    addresses = idle_addresses(sizes.idle_endpoints)
    all_ready, one_replaced = [many("big", addresses)], [many("big", [*addresses[:-1], "10.200.0.1:50051"])]
    at.put(mesh(at, xds.cluster("big") | {"lb_policy": "RING_HASH"}) + all_ready)
    before = at.read()
    opened = at.read("open")
    cold = at.settled()
    at.put(one_replaced)  # the plane has read both now
    begun = at.settled()
    _changes(at, [all_ready, one_replaced], sizes.changes, pause=0.1)
    changed = at.settled()
    return {
        "idle cpu": opened["cpu"] - before["cpu"],
        "idle memory": cold["memory"] - before["memory"],
        "change cpu": (changed["cpu"] - begun["cpu"]) / sizes.changes,
        **steps(opened, cold, begun, changed, of="idle "),
    }


def ready_endpoints(at: Stage, sizes: Sizes) -> Readings:
    """All in 127.0.0.0/8, so that one server is them all."""
    return _ready(at, loopback_addresses(at, sizes.ready_endpoints))


def ready_in_memory(at: Stage, sizes: Sizes) -> Readings:
    return {f"memory {name}": value for name, value in _ready(at, idle_addresses(sizes.ready_endpoints)).items()}


def _ready(at: Stage, addresses: list[str]) -> Readings:
    at.put(mesh(at))
    at.read("open")
    before = at.settled()
    at.put([*mesh(at, xds.cluster("big")), many("big", addresses)])
    after = at.settled()
    return {
        "ready cpu": (after["cpu"] - before["cpu"]) / len(addresses),
        "ready memory": (after["memory"] - before["memory"]) / len(addresses),
        **steps(after, of="ready "),
    }


def memory_of_idle(at: Stage, count: int) -> float:
    """Bytes that so many endpoints add that nobody calls."""
    return _added_memory(at, xds.cluster("big") | {"lb_policy": "RING_HASH"}, idle_addresses(count))


def memory_of_ready(at: Stage, count: int) -> float:
    """Bytes that so many connected endpoints add."""
    return _added_memory(at, xds.cluster("big"), loopback_addresses(at, count))


def _added_memory(at: Stage, cluster: dict[str, Any], addresses: list[str]) -> float:
    at.put(mesh(at))
    at.read("open")
    before = at.settled()
    at.put([*mesh(at, cluster), many("big", addresses)])
    return at.settled()["memory"] - before["memory"]


def clusters(at: Stage, sizes: Sizes) -> Readings:
    """A thousand at once; then one of them changes."""
    names = [f"c{number}" for number in range(sizes.clusters)]
    at.put(mesh(at))
    at.read("open")
    before = at.settled()
    each = [xds.endpoints(name, xds.locality(at.host)) for name in names]
    at.put([*mesh(at, *map(lazy, names)), *each])
    after = at.settled()
    other = xds.endpoints(names[0], xds.locality(at.host, health={at.host: "UNKNOWN"}))
    _changes(at, [[other], [each[0]]], sizes.changes)
    changed = at.settled()
    return {
        "cluster cpu": (after["cpu"] - before["cpu"]) / len(names),
        "cluster memory": (after["memory"] - before["memory"]) / len(names),
        "one cluster cpu": (changed["cpu"] - after["cpu"]) / sizes.changes,
        **steps(after, changed, of="clusters "),
    }


def one_of_many(at: Stage, sizes: Sizes) -> Readings:
    """All of a mesh that nobody calls yet; then one endpoint of it is replaced, then one of its clusters changes."""
    share = sizes.idle_endpoints // sizes.clusters
    addresses = idle_addresses(sizes.idle_endpoints)
    hosts = {f"c{n}": addresses[n * share : (n + 1) * share] for n in range(sizes.clusters)}
    name, its = next(iter(hosts.items()))
    endpoints = [[xds.endpoints(name, xds.locality(*each))] for each in ([*its[1:], "10.200.0.1:50051"], its)]
    clusters = [[lazy(name) | {"ring_hash_lb_config": {"minimum_ring_size": size}}] for size in (2, 1)]
    others = [xds.endpoints(other, xds.locality(*theirs)) for other, theirs in hosts.items()]
    at.put([*mesh(at, *map(lazy, hosts)), *others])
    before = at.read()
    at.read("open")
    found = {"cold cpu": at.settled()["cpu"] - before["cpu"], "cold bytes": float(at.put([]))}
    for kind, two in (("endpoint", endpoints), ("cluster", clusters)):
        cpu, sent = at.read()["cpu"], at.put([])
        _changes(at, two, sizes.changes, pause=0.1)
        found[f"{kind} cpu"] = (at.settled()["cpu"] - cpu) / sizes.changes
        found[f"{kind} bytes"] = (at.put([]) - sent) / sizes.changes
    return found


def deep_change(at: Stage, sizes: Sizes) -> Readings:
    """Root, cds, outlier_detection, cluster_impl, override_host, priority, weighted_target, round_robin; in echoes."""
    echo = at.read(f"echo {at.echo} {sizes.echoes}").get("took", 0.0)
    at.put(mesh(at))
    at.read("open")
    before = at.settled()
    states = ({at.host: "UNKNOWN"}, {at.host: "HEALTHY"})
    _changes(at, [[xds.endpoints("near", xds.locality(at.host, health=its))] for its in states], sizes.deep_changes)
    cpu = (at.settled()["cpu"] - before["cpu"]) / sizes.deep_changes
    return {"deep cpu": cpu, **({"deep echoes": cpu / echo} if echo else {})}


def _changes(at: Stage, two: list[Resources], count: int, *, pause: float = 0.02) -> None:
    """Take turns; with a pause for each, or a client would do several at once (ours does a hundred a second)."""
    for turn in range(count):
        at.put(two[turn % 2])
        time.sleep(pause)


def steps(*readings: Readings, of: str = "") -> Readings:
    """The longest step in any of them, if the client watches its steps."""
    names = [name for name in ("longest", "held") if name in readings[0]]
    return {of + name: max(reading[name] for reading in readings) for name in names}


Scenario: TypeAlias = Callable[[Stage, Sizes], Readings]
