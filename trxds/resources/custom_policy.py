"""A load balancing policy of the user's, as a cluster's resource asks for it (A52).

It comes as a TypedStruct: a type's name, which the user has given to a policy, and a struct that only
the user's code can read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from .extension import Extension
from .leaf_policy import LbPolicyConfig

ParseSettings: TypeAlias = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class CustomPolicy(LbPolicyConfig):
    """`settings` are what the user's parser made of the struct; compared to see a change."""

    policy: str  # the name that the user gave it
    settings: Any


def custom_policy(config: Extension, parse: ParseSettings) -> CustomPolicy | None:
    assert config.fields is not None
    try:
        return CustomPolicy(config.type_name, parse(config.fields))
    except Exception as error:  # the user's code, which may raise what it likes: a bad resource, not a bad channel
        config.problems.add(f"{type(error).__name__}: {error}")
        return None
