"""The coarse model: clients and hosts are rows of numbers, and what a client does is a rule of one line.

It knows no connections, frames or timers, so it can be wrong; `check.py` holds it against the real client.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from trxds.resources import protos

from . import meshes
from .sizes import CALLS_A_SECOND, RING_SIZE_CAP, WARM_UP, WINDOW, AdsMesh, AfterUpdate, Mesh, Policy, RollingUpdate

Counts: TypeAlias = NDArray[np.int64]

_RESPONSE = 14  # bytes around a response: its gRPC prefix and the head of one DATA frame
_CONNECTION = 120  # bytes of a new connection: settings, and the headers of the stream


# -- load by host


def load_by_host(mesh: Mesh, policy: Policy, random: Generator) -> Counts:
    """Return the calls of each host within the window, when every connection has been made."""
    calls = int(CALLS_A_SECOND * WINDOW)
    if policy.subset is not None:
        return _in_subsets(mesh, policy.subset, calls, random)
    match policy.name:
        case "round_robin":
            return _in_turn(mesh.clients, mesh.hosts, calls, random)
        case "least_request":
            # A client seldom has a call under way at one call a second, so two choices are no better than one (A48).
            return random.multinomial(mesh.clients * calls, np.full(mesh.hosts, 1 / mesh.hosts))
        case "ring_hash":
            return random.multinomial(mesh.clients * calls, _ring_shares(mesh.hosts, policy.ring, random))
        case "pick_first" | "session":
            # One host for a client, chosen at random: the shuffled list of A62, or a session's first call.
            return calls * random.multinomial(mesh.clients, np.full(mesh.hosts, 1 / mesh.hosts))
    raise ValueError(f"no model of {policy.name}")


def _in_turn(clients: int, hosts: int, calls: int, random: Generator) -> Counts:
    """Each client begins at a random host, and takes one after the other."""
    rounds, rest = divmod(calls, hosts)
    load = np.full(hosts, rounds * clients, dtype=np.int64)
    starts = np.bincount(random.integers(hosts, size=clients), minlength=hosts)
    for step in range(rest):
        load += np.roll(starts, step)
    return load


def _in_subsets(mesh: Mesh, size: int, calls: int, random: Generator) -> Counts:
    """Each client takes the hosts of its own random subset in turn (A68)."""
    load = np.zeros(mesh.hosts, dtype=np.int64)
    size = min(size, mesh.hosts)
    for _ in range(mesh.clients):
        subset = random.permutation(mesh.hosts)[:size]
        rounds, rest = divmod(calls, size)
        load[subset] += rounds
        load[subset[:rest]] += 1
    return load


def _ring_shares(hosts: int, ring_size: int, random: Generator) -> NDArray[np.float64]:
    """Return each host's share of the ring, which is the same ring for all clients (A42)."""
    size = min(ring_size, RING_SIZE_CAP)
    size = min(-(-size // hosts) * hosts, RING_SIZE_CAP)  # a whole number of entries for each host, if the cap allows
    ends = np.ceil(np.arange(1, hosts + 1) * (size / hosts) - 1e-6).astype(int)
    owners = random.permutation(np.repeat(np.arange(hosts), np.diff(ends, prepend=0)))
    places = np.sort(random.random(len(owners)))
    arcs = np.diff(places, prepend=places[-1] - 1)
    return np.bincount(owners, weights=arcs, minlength=hosts)


# -- connections


def connections(mesh: Mesh, policy: Policy, random: Generator) -> int:
    """Return how many connections the mesh has when its clients have called for a minute and a half."""
    if policy.name == "pick_first":
        return mesh.clients
    if policy.name == "ring_hash":
        # A42: a host is connected when a call's hash falls on it for the first time.
        shares = _ring_shares(mesh.hosts, policy.ring, random)
        used = 1 - (1 - shares) ** (CALLS_A_SECOND * (WARM_UP + WINDOW))
        return int(random.binomial(mesh.clients, used).sum())
    return mesh.clients * min(mesh.hosts, policy.subset or mesh.hosts)


# -- sessions


def after_update(mesh: Mesh, sessions: int, update: RollingUpdate, random: Generator) -> AfterUpdate:
    """Return where sessions are after a rolling update; `sessions` is their number in the whole mesh."""
    part = mesh.hosts // update.steps
    where = random.integers(mesh.hosts, size=sessions)
    moves = 0
    for step in range(update.steps):
        # Hosts are numbered in the order in which they come, so those that are there are a range of numbers.
        first, last = (step + 1) * part, mesh.hosts + step * part
        left = where < first
        where[left] = random.integers(first, last + part if update.surge else last, size=int(left.sum()))
        moves += int(left.sum())
    counts = np.bincount(where - mesh.hosts, minlength=part * update.steps)
    by_step = counts.reshape(update.steps, part).sum(axis=1)
    return AfterUpdate(tuple(float(each) for each in by_step / sessions), moves / sessions)


# -- reconnecting to a control plane


def reconnects(clients: int, outage: float, random: Generator, *, jitter: float = 0.2) -> NDArray[np.float64]:
    """Return when each client's ADS stream is back, in seconds since the outage began (A57).

    Streams end at 0. Each client waits for 1 s, then 1.6 times as long each time up to 120 s, all ± `jitter` of it.
    """
    at = np.zeros(clients)
    delay = 1.0
    waiting = np.ones(clients, dtype=bool)
    while waiting.any():
        at[waiting] += delay * random.uniform(1 - jitter, 1 + jitter, size=int(waiting.sum()))
        waiting = at < outage
        delay = min(delay * 1.6, 120.0)
    return at


# -- ADS bytes


def ads_bytes(mesh: AdsMesh, event: str, variant: str) -> int:
    """Return the bytes that a control plane sends to one client because of an event.

    A response of the state of the world has all listeners or all clusters, because it says by their absence which are
    gone. go-control-plane's snapshot cache has one version for all types, so any change sends everything again. With
    delta a client that comes back gets what differs from the versions that it names.
    """
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for resource in meshes.ads_resources(mesh):
        by_kind.setdefault(meshes.kind_of(resource), []).append(resource)
    everything = sum(_response(each, variant) for each in by_kind.values())
    if event == "start" or (event == "restart" and variant != "delta"):
        return _CONNECTION + everything
    if variant == "go-control-plane's snapshots":
        return everything
    match event, variant:
        case "one endpoint", _:
            return _response(by_kind["EDS"][:1], variant)
        case "one cluster", _:
            # The endpoints of a changed cluster are sent again, for clients that warm it.
            clusters = by_kind["CDS"][:1] if variant == "delta" else by_kind["CDS"]
            return _response(clusters, variant) + _response(by_kind["EDS"][:1], variant)
        case "restart", "delta":
            # The client names the versions that it has, except of the first resource of each type.
            return _CONNECTION + sum(_response(each[:1], variant) for each in by_kind.values())
    raise ValueError(f"no model of {event}, {variant}")


def _response(resources: list[dict[str, Any]], variant: str) -> int:
    found = [meshes.packed(each) for each in resources]
    head = {"type_url": resources[0]["@type"], "nonce": "n1000"}
    if variant != "delta":
        return _RESPONSE + int(protos.DiscoveryResponse(version_info="10", resources=found, **head).ByteSize())
    wrapped = [
        protos.Resource(name=meshes.name_of(each), version="c0ffee00", resource=body)
        for each, body in zip(resources, found, strict=True)
    ]
    return _RESPONSE + int(
        protos.DeltaDiscoveryResponse(system_version_info="10", resources=wrapped, **head).ByteSize()
    )
