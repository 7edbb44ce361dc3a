"""The figures of docs/scale.md: what the model says of 10,000 clients and 1,000 hosts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import default_rng

from . import model
from .sizes import EVENTS, ROUND_ROBIN, SESSION, VARIANTS, AdsMesh, Evenness, Mesh, Policy, RollingUpdate

MESH = Mesh(10_000, 1_000)
SUBSETS = (5, 10, 20, 50, 100, 200)
POLICIES = (
    ROUND_ROBIN,
    *(Policy("random_subsetting", size) for size in SUBSETS),
    Policy("least_request"),
    Policy("ring_hash", ring=1024),
    Policy("ring_hash", ring=4096),
    Policy("pick_first"),
    SESSION,
)
UPDATES = tuple(RollingUpdate(steps, surge) for steps in (4, 10, 100) for surge in (True, False))
SESSIONS = 10 * MESH.clients
OUTAGES = (0.0, 10.0, 60.0, 600.0)
ADS_MESHES = (AdsMesh(10, 100), AdsMesh(1, 1_000))
_TRIALS = 10

Row = tuple[str, ...]


def load_table() -> list[Row]:
    """Policies: connections of a client and of a host, the busiest host, the standard deviation."""
    rows: list[Row] = [("policy", "connections of a client", "of a host", "busiest host", "deviation")]
    for policy in POLICIES:
        random = default_rng(0)
        trials = [Evenness.of(model.load_by_host(MESH, policy, random)) for _ in range(_TRIALS)]
        made = model.connections(MESH, policy, random)
        peak = np.mean([each.peak for each in trials])
        deviation = np.mean([each.deviation for each in trials])
        numbers = (
            f"{made / MESH.clients:,.0f}",
            f"{made / MESH.hosts:,.0f}",
            f"{peak:.2f}",
            f"{100 * deviation:.0f} %",
        )
        rows.append((str(policy), *numbers))
    return rows


def update_table() -> list[Row]:
    """Rolling updates: moves of a session, and the load of the hosts of the first, a middle and the last step."""
    rows: list[Row] = [("parts", "first are", "moves of a session", "busiest part", "in the middle", "last part")]
    for update in UPDATES:
        found = model.after_update(MESH, SESSIONS, update, default_rng(0))
        shares = [share * update.steps for share in found.by_step]
        which = "new hosts" if update.surge else "old hosts gone"
        numbers = (found.moves, max(shares), shares[update.steps // 2], shares[-1])
        rows.append((str(update.steps), which, *(f"{each:.2f}" for each in numbers)))
    return rows


def bytes_table(mesh: AdsMesh) -> list[Row]:
    """ADS: bytes to one client for each event, by variant."""
    rows: list[Row] = [("event", *VARIANTS)]
    for event in EVENTS:
        rows.append((event, *(_size(model.ads_bytes(mesh, event, variant)) for variant in VARIANTS)))
    return rows


def reconnect_table() -> list[Row]:
    """Outages: new streams in the busiest tenth of a second and second, and when the last client is back."""
    rows: list[Row] = [("outage", "busiest 0.1 s", "busiest second", "half are back after", "the last after")]
    for outage in OUTAGES:
        at = model.reconnects(MESH.clients, outage, default_rng(0))
        late = at - outage
        busiest = (busiest_window(at, 0.1), busiest_window(at, 1.0))
        rows.append(
            (
                f"{outage:g} s",
                *(f"{each:,}" for each in busiest),
                *(f"{each:.1f} s" for each in (np.median(late), late.max())),
            )
        )
    return rows


def busiest_window(times: Sequence[float] | np.ndarray, width: float) -> int:
    """Return the most of these times that lie within `width` seconds."""
    ordered = np.sort(np.asarray(times))
    return int((np.searchsorted(ordered, ordered + width, "left") - np.arange(len(ordered))).max())


def _size(number: float) -> str:
    return f"{number:,.0f} B" if number < 10_000 else f"{number / 1000:,.0f} kB"


def tables() -> dict[str, list[Row]]:
    """Return all tables by the names of their places in docs/scale.md."""
    return {
        "load": load_table(),
        "updates": update_table(),
        "bytes": bytes_table(ADS_MESHES[0]),
        "bytes of one cluster": bytes_table(ADS_MESHES[1]),
        "reconnects": reconnect_table(),
    }


def as_markdown(rows: Sequence[Row]) -> str:
    """Return a table as Markdown."""
    head, *rest = rows
    lines = [head, ("---",) * len(head), *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
