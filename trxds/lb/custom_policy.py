"""A user's own policy: how the channel makes it and reads its configuration (A52), and what it may decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from trxds.core.connectivity import Connectivity

from .endpoint_set import Endpoints
from .pick import TraceNote
from .pick_explanation import Describes
from .policy import ChannelControl, Decision, Policy, PolicyFactory, PolicyInputs

_TOLD = ("began", "ended")


@dataclass(frozen=True, slots=True)
class PolicyType:
    """`make` is called with the policy's `Surroundings`, once for each place in the tree: usually it is the class.

    `parse` makes the policy's settings of the struct that the control plane sent, as a plain mapping; what
    it raises refuses the resource (a NACK). Settings are compared, and equal ones are no change. Without
    it they are the mapping itself.
    """

    make: PolicyFactory
    parse: Callable[[Mapping[str, Any]], Any] = dict


def checked_policy_type(make: PolicyFactory) -> PolicyFactory:
    """What it makes is the user's, so what that decides is looked at before the node goes by it."""

    def made(channel_control: ChannelControl) -> Policy:
        return _Checked(make(channel_control))

    return made


class _Checked:
    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        decision = self._policy.decide(inputs, now)
        check(decision)
        return decision  # type: ignore[no-any-return]

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        return str(self._policy.describe(inputs, now)) if isinstance(self._policy, Describes) else ""


def check(decision: object) -> None:
    """`TypeError` or `ValueError` for what a node cannot carry out; it would find out half-way."""
    if type(decision) is not Decision:
        raise TypeError(f"decide() must return a Decision, not {decision!r}")
    for field, wanted, good in (
        ("state", "a Connectivity", isinstance(decision.state, Connectivity)),
        ("picker", "an object with a method `pick`", callable(getattr(decision.picker, "pick", None))),
        ("children", "configurations, by the children's names", _are_configs(decision.children)),
        ("deactivate", "a frozenset of children's names", _are_texts(decision.deactivate, frozenset)),
        ("hosts", "a tuple of addresses", _are_texts(decision.hosts, tuple)),
        ("connect", "a tuple of addresses", _are_texts(decision.connect, tuple)),
        ("wake_at", "a time on Trio's clock", _is_time(decision.wake_at)),
        ("tasks", "async functions, by the tasks' names", _are_functions(decision.tasks)),
        ("ejected", "a frozenset of addresses, or None", _are_texts_or_none(decision.ejected)),
        ("endpoints", "None, or Endpoints by the children's names", _are_endpoints(decision.endpoints)),
        ("re_resolve", "a name", isinstance(decision.re_resolve, str)),
        ("security", "None; it is the cluster's", decision.security is None),
        ("trackers", "trackers, with methods `began` and `ended`, by address", _are_trackers(decision.trackers)),
        ("collects", "None; it is the sessions'", decision.collects is None),
        ("handed_on", "a TraceNote, or None", isinstance(decision.handed_on, TraceNote | None)),
    ):
        if not good:
            raise TypeError(f"Decision.{field} is {getattr(decision, field)!r}; it must be {wanted}")


def _are_texts(values: object, kind: type[tuple[object, ...] | frozenset[object]]) -> bool:
    # No other collection: what can be changed later, or read once only, is no value to compare the next one with.
    return isinstance(values, kind) and {str}.issuperset(map(type, values))


def _are_texts_or_none(values: object) -> bool:
    return values is None or _are_texts(values, frozenset)


def _are_configs(values: object) -> bool:
    return _are_named(values) and all(isinstance(getattr(each, "policy", None), str) for each in values.values())


def _are_endpoints(values: object) -> bool:
    return values is None or (_are_named(values) and all(isinstance(each, Endpoints) for each in values.values()))


def _are_functions(values: object) -> bool:
    return _are_named(values) and all(map(callable, values.values()))


def _are_trackers(values: object) -> bool:
    # By type, for they may be as many as the endpoints.
    return values is None or (
        isinstance(values, Mapping)
        and {str}.issuperset(map(type, values))
        and all(callable(getattr(kind, method, None)) for kind in set(map(type, values.values())) for method in _TOLD)
    )


def _are_named(values: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(values, Mapping) and all(isinstance(name, str) for name in values)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not math.isnan(value)
