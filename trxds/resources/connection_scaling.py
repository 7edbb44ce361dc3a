"""A cluster may allow more than one connection to each of its hosts (A105)."""

from __future__ import annotations

from typing import Any

from . import protos
from .validation_errors import ValidationErrors


def parse_max_connections(circuit_breakers: Any, problems: ValidationErrors) -> int | None:
    """Return `max_connections` of the first per-host threshold of priority DEFAULT; None if it is unset."""
    for index, threshold in enumerate(circuit_breakers.per_host_thresholds):
        # As for `thresholds` (A32), the others do not count, whatever they say.
        if threshold.priority == protos.DEFAULT_PRIORITY:
            if not threshold.HasField("max_connections"):
                return None
            if not threshold.max_connections.value:
                problems.at(f"per_host_thresholds[{index}]").at("max_connections").add("must be greater than 0")
            return int(threshold.max_connections.value)
    return None
