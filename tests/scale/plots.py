"""The plots of docs/scale.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench.plots import finish
from matplotlib import pyplot
from numpy.random import default_rng

from . import figures, model
from .sizes import EVENTS, ROUND_ROBIN, VARIANTS, Evenness, Policy, RollingUpdate

_EVENT_LABELS = {
    "start": "clients start",
    "one endpoint": "an endpoint changes",
    "one cluster": "a cluster changes",
    "restart": "control plane restarts",
}
_BLUE, _ORANGE, _GREY = "#1f6feb", "#d9822b", "#8c959f"


def draw(folder: Path) -> Iterator[Path]:
    """Draw all plots; yields their files."""
    for name, (title, make) in _PLOTS.items():
        figure, axes = pyplot.subplots(figsize=(7.2, 3.2), layout="constrained", facecolor="none")
        axes.set_facecolor("none")
        axes.spines[["top", "right"]].set_visible(False)
        description = make(axes)
        axes.set_title(title, fontsize=11, loc="left")
        file = folder / f"scale-{name}.svg"
        figure.savefig(file, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
        pyplot.close(figure)
        finish(file, title, description)
        yield file


def _subsets(axes: Any) -> str:
    """The busiest host by the size of the subset."""
    sizes = (3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300)
    peaks = [_peak(Policy("random_subsetting", size)) for size in sizes]
    axes.plot(sizes, peaks, "o-", color=_BLUE, label="random_subsetting")
    axes.axhline(_peak(ROUND_ROBIN), color=_GREY, ls="--", label="round_robin over all hosts")
    axes.set_xscale("log")
    axes.set_xticks([3, 10, 30, 100, 300], ["3", "10", "30", "100", "300"])
    axes.set_xlabel("hosts in a client's subset, and so connections of each client")
    axes.set_ylabel("busiest host / mean")
    axes.legend(frameon=False, fontsize=9)
    found = ", ".join(f"{size} hosts {peak:.2f}" for size, peak in zip(sizes, peaks, strict=True))
    return f"Load of the busiest host as a multiple of the mean, by subset size: {found}."


def _peak(policy: Policy) -> float:
    random = default_rng(0)
    return float(np.mean([Evenness.of(model.load_by_host(figures.MESH, policy, random)).peak for _ in range(5)]))


def _sessions(axes: Any) -> str:
    """Sessions on the hosts of each part of a rolling update."""
    texts = []
    for surge, colour, label in ((True, _BLUE, "new hosts come first"), (False, _ORANGE, "old hosts go first")):
        found = model.after_update(figures.MESH, figures.SESSIONS, RollingUpdate(10, surge), default_rng(0))
        shares = [10 * share for share in found.by_step]
        axes.bar(np.arange(1, 11) + (-0.2 if surge else 0.2), shares, 0.38, color=colour, label=label)
        texts.append(f"{label}: {', '.join(f'{each:.2f}' for each in shares)}")
    axes.axhline(1, color=_GREY, ls="--")
    axes.set_xticks(range(1, 11))
    axes.set_xlabel("part of the hosts, in the order in which they were replaced")
    axes.set_ylabel("sessions / mean")
    axes.legend(frameon=False, fontsize=9)
    return f"Sessions on the hosts of each tenth, as a multiple of the mean, {'; '.join(texts)}."


def _reconnects(axes: Any) -> str:
    """New ADS streams by time after an outage of 10 s, with and without jitter."""
    bins = np.arange(10, 19, 0.1)
    texts = []
    for jitter, colour, label in ((0.2, _BLUE, "±20 % of jitter, as gRPC has it"), (0.0, _ORANGE, "without jitter")):
        at = model.reconnects(figures.MESH.clients, 10.0, default_rng(0), jitter=jitter)
        counts, _ = np.histogram(at, bins)
        axes.step(bins[:-1], counts, where="post", color=colour, label=label)
        texts.append(f"{label}: at most {counts.max():,} in a tenth of a second")
    axes.set_yscale("symlog", linthresh=10)
    axes.set_xlabel("seconds since the control plane died; it is back at 10")
    axes.set_ylabel("new streams in 0.1 s")
    axes.legend(frameon=False, fontsize=9)
    return f"Reconnects of 10,000 clients after an outage of 10 s. {'; '.join(texts)}."


def _bytes(axes: Any) -> str:
    """ADS bytes to all clients by event and variant."""
    mesh = figures.ADS_MESHES[0]
    texts = []
    for place, (variant, colour) in enumerate(zip(VARIANTS, (_BLUE, _ORANGE, _GREY), strict=True)):
        sizes = [model.ads_bytes(mesh, event, variant) * figures.MESH.clients / 1e6 for event in EVENTS]
        axes.bar(np.arange(len(sizes)) + 0.27 * (place - 1), sizes, 0.25, color=colour, label=variant)
        texts.append(f"{variant}: {', '.join(f'{each:.0f}' for each in sizes)}")
    axes.set_yscale("log")
    axes.set_xticks(range(len(EVENTS)), [_EVENT_LABELS[event] for event in EVENTS])
    axes.set_ylabel("MB to 10,000 clients")
    axes.legend(frameon=False, fontsize=9)
    return f"Megabytes to all clients, for {', '.join(EVENTS)}. {'; '.join(texts)}."


_PLOTS = {
    "subsets": ("Load of the busiest of 1,000 hosts, 10,000 clients", _subsets),
    "sessions": ("Sessions after a rolling update in ten parts", _sessions),
    "reconnects": ("A control plane comes back after 10 s", _reconnects),
    "bytes": ("What a control plane sends, 10 clusters of 100 endpoints", _bytes),
}
