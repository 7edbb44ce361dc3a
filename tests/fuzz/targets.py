"""All of them, by name."""

from __future__ import annotations

from . import config_targets, edge_targets, wire_targets

TARGETS = {target.name: target for target in (*wire_targets.TARGETS, *config_targets.TARGETS, *edge_targets.TARGETS)}
