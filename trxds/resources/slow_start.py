"""The configuration of slow start, in xDS and in a service config (the draft A100, with Envoy's fields)."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct

from trxds.core.json_reader import JsonNode

from .units import parse_optional_duration, wrapped_number_or
from .validation_errors import ValidationErrors

DEFAULT_AGGRESSION = 1.0
DEFAULT_MIN_WEIGHT = 0.1


class SlowStart(Struct, frozen=True):
    """A new host gets a share of its turns that grows for `window` seconds.

    The share begins at `min_weight`, 0 to 1. With an `aggression` of 1 it grows in proportion to the time, and with a
    greater one faster at first.
    """

    window: float
    aggression: float = DEFAULT_AGGRESSION
    min_weight: float = DEFAULT_MIN_WEIGHT

    def scale(self, age: float) -> float:
        """Return by how much the weight of a host counts that has been READY for `age` seconds."""
        # Envoy's formula, which A100 has too; the first second is not below one second's share.
        elapsed = max(age, 1.0) / self.window
        return max(self.min_weight, elapsed ** (1 / self.aggression)) if elapsed < 1 else 1.0


def parse_slow_start(parent: Any, problems: ValidationErrors) -> SlowStart | None:
    """Parse the field `slow_start_config` of a policy's message; None if it is unset, or its window 0."""
    if not parent.HasField("slow_start_config"):
        return None
    message, at = parent.slow_start_config, problems.at("slow_start_config")
    window = parse_optional_duration(message, "slow_start_window", at) or 0.0
    # Of a runtime value a client has the default only.
    aggression = message.aggression.default_value if message.HasField("aggression") else DEFAULT_AGGRESSION
    if not 0 < aggression < math.inf:
        at.at("aggression.default_value").add("value must be greater than 0 and finite")
        aggression = DEFAULT_AGGRESSION
    percent = wrapped_number_or(100 * DEFAULT_MIN_WEIGHT, message, "min_weight_percent")
    if not 0 <= percent <= 100:
        at.at("min_weight_percent.value").add("value must be in the range [0, 100]")
    return SlowStart(window, aggression, percent / 100) if window > 0 else None


def slow_start_settings(node: JsonNode) -> SlowStart | None:
    """Parse `slowStartConfig` of a service config's policy; None if it is missing, or its window 0."""
    if node.value is None:
        return None
    node.object()
    window = node.member("slowStartWindow").duration(0.0)
    aggression_node, percent_node = node.member("aggression"), node.member("minWeightPercent")
    aggression, percent = aggression_node.number(DEFAULT_AGGRESSION), percent_node.number(100 * DEFAULT_MIN_WEIGHT)
    if not aggression > 0:
        aggression_node.error("must be greater than 0")
        aggression = DEFAULT_AGGRESSION
    if not 0 <= percent <= 100:
        percent_node.error("must be in the range 0 to 100")
    return SlowStart(window, aggression, percent / 100) if window > 0 else None
