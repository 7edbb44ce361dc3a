"""A user's own policy: how the channel makes it and reads its configuration (A52)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .policy import PolicyFactory


@dataclass(frozen=True, slots=True)
class PolicyType:
    """`make` is called with the policy's `Surroundings`, once for each place in the tree: usually it is the class.

    `parse` makes the policy's settings of the struct that the control plane sent, as a plain mapping; what
    it raises refuses the resource (a NACK). Settings are compared, and equal ones are no change. Without
    it they are the mapping itself.
    """

    make: PolicyFactory
    parse: Callable[[Mapping[str, Any]], Any] = dict
