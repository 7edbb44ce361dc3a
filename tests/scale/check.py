"""The model held against the real client, at a size that both can do.

A number of the model is a distribution over many trials. The real client's number has to lie within four standard
deviations of its mean. Times of reconnects are compared by the greatest distance of their distributions (Kolmogorov and
Smirnov), at the level of 0.1 %, and bytes have to agree within 2 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt

import numpy as np
from numpy.random import default_rng

from . import model, real
from .sizes import EVENTS, ROUND_ROBIN, SESSION, VARIANTS, AdsMesh, Evenness, Mesh, Policy, RollingUpdate

_TRIALS = 300
_DEVIATIONS = 4.0
_LEVEL = 1.95  # of a Kolmogorov-Smirnov test at 0.1 %, to be divided by the root of the number of values
_BYTES = 0.02


@dataclass(frozen=True, slots=True)
class Compared:
    """One number of both; `range` is where the real client's has to be."""

    question: str
    model: float
    real: float
    range: tuple[float, float]

    @property
    def agrees(self) -> bool:
        return self.range[0] <= self.real <= self.range[1]

    def __str__(self) -> str:
        low, high = self.range
        verdict = "agrees" if self.agrees else "DIFFERS"
        return f"{verdict:<8} {self.question}: model {self.model:.4g}, client {self.real:.4g} ({low:.4g} to {high:.4g})"


def policies(hosts: int) -> tuple[Policy, ...]:
    """Return the policies to compare."""
    others = (Policy("random_subsetting", max(2, hosts // 10)), Policy("least_request"), Policy("ring_hash"))
    return (ROUND_ROBIN, *others, Policy("pick_first"), SESSION)


def compare_load(mesh: Mesh, policy: Policy, seed: int = 0) -> Iterator[Compared]:
    """Compare the load of hosts, and the number of connections."""
    found = real.load_by_host(mesh, policy, seed)
    random = default_rng(seed)
    trials = [Evenness.of(model.load_by_host(mesh, policy, random)) for _ in range(_TRIALS)]
    load = Evenness.of(found.calls)
    yield _within(f"{policy}: busiest host", [each.peak for each in trials], load.peak)
    yield _within(f"{policy}: deviation", [each.deviation for each in trials], load.deviation)
    made = [model.connections(mesh, policy, random) for _ in range(_TRIALS)]
    yield _within(f"{policy}: connections", made, found.connections)


def compare_update(mesh: Mesh, sessions: int, update: RollingUpdate, seed: int = 0) -> Iterator[Compared]:
    """Compare where sessions are after a rolling update, and how often they have moved."""
    found = real.after_update(mesh, sessions, update, seed)
    random = default_rng(seed)
    trials = [model.after_update(mesh, sessions, update, random) for _ in range(_TRIALS)]
    name = f"update in {update.steps} steps, {'new hosts first' if update.surge else 'old hosts first'}"
    yield _within(f"{name}: moves of a session", [each.moves for each in trials], found.moves)
    for step, share in enumerate(found.by_step):
        shares = [each.by_step[step] for each in trials]
        yield _within(f"{name}: sessions on the hosts of step {step + 1}", shares, share)


def compare_reconnects(clients: int, outage: float, seed: int = 0) -> Iterator[Compared]:
    """Compare when ADS streams are back after an outage."""
    found = real.reconnects(clients, outage, seed)
    expected = np.sort(model.reconnects(50 * clients, outage, default_rng(seed)))
    below = np.searchsorted(expected, found) / len(expected)
    steps = np.arange(clients + 1) / clients
    distance = float(max(np.abs(below - steps[:-1]).max(), np.abs(below - steps[1:]).max()))
    yield Compared(f"reconnects after {outage:g} s: distance", 0.0, distance, (0.0, _LEVEL / sqrt(clients)))


def compare_bytes(mesh: AdsMesh, clients: int, variant: str, seed: int = 0) -> Iterator[Compared]:
    """Compare the bytes of each event."""
    found = real.ads_bytes(mesh, clients, variant, seed)
    for event in EVENTS:
        expected = model.ads_bytes(mesh, event, variant)
        yield Compared(
            f"bytes to a client, {variant}, {event}",
            expected,
            found[event],
            (expected * (1 - _BYTES), expected * (1 + _BYTES)),
        )


def comparisons(size: int) -> Iterator[Callable[[], Iterator[Compared]]]:
    """Yield each comparison of a mesh of `size` clients and `size` hosts, to be run."""
    mesh = Mesh(size, size)
    for policy in policies(size):
        yield partial(compare_load, mesh, policy)
    for surge in (True, False):
        yield partial(compare_update, mesh, 5 * size, RollingUpdate(5, surge))
    for outage in (0.0, 10.0, 60.0):
        yield partial(compare_reconnects, size, outage)
    for variant in VARIANTS:
        yield partial(compare_bytes, AdsMesh(10, size // 10), size, variant)


def _within(question: str, trials: Sequence[float], found: float) -> Compared:
    mean, deviation = float(np.mean(trials)), float(np.std(trials))
    room = _DEVIATIONS * deviation
    return Compared(question, mean, found, (mean - room, mean + room))
