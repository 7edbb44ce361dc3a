"""A user's own policy is made, configured (A52) and checked here: a wrong decision fails with a message at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trxds.core.connectivity import Connectivity

from .configs import Target, WeightedTargetConfig
from .endpoint_set import Endpoints
from .pick import TraceNote
from .policy import NO_SETTINGS, Decision, Describes, ExitIdle, PolicyFactory, PolicyInputs

_MIN_WAKE_INTERVAL = 0.01  # seconds
_TRACKER_METHODS = ("began", "ended")


@dataclass(frozen=True, slots=True)
class PolicyType:
    """A user's policy, as `open_channel(policies=...)` takes it by its name.

    `make` is called with a `ChannelControl` once for each node of the tree that has the policy: usually it is the
    class. `parse` turns the struct that the control plane sent (A52), a mapping, into the policy's settings; an
    exception rejects the resource (NACK). The default is the mapping itself. Settings are compared: equal ones are no
    change. They must not refer to the channel, which would stay in memory after it is closed.
    """

    make: PolicyFactory
    parse: Callable[[Mapping[str, Any]], Any] = dict


def make_checked_factory(make: PolicyFactory) -> PolicyFactory:
    """Return a factory whose policies have their decisions checked, because `make` is the user's."""
    return lambda channel_control: _CheckedPolicy(make(channel_control))


class _CheckedPolicy:
    def __init__(self, policy: Any) -> None:
        self._policy = policy
        if isinstance(policy, ExitIdle):
            # An attribute, because only a policy that has the method decides again when it is called.
            self.exit_idle = policy.exit_idle

    # Read after each decision, because a policy may change them then.

    @property
    def reads_endpoints(self) -> bool:
        return bool(getattr(self._policy, "reads_endpoints", True))

    @property
    def connects_idle_children(self) -> bool:
        return bool(getattr(self._policy, "connects_idle_children", False))

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        decision = self._policy.decide(inputs, now)
        check_decision(decision)
        # A time that has come would wake the policy at once, and for ever if it does not move it.
        soon = now + _MIN_WAKE_INTERVAL
        return decision if decision.wake_at > now else replace(decision, wake_at=soon)  # type: ignore[no-any-return]

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        return str(self._policy.describe(inputs, now)) if isinstance(self._policy, Describes) else ""


def check_decision(decision: object) -> None:
    """Raise `TypeError` for a decision that a node could not apply; it would otherwise fail half-way."""
    if type(decision) is not Decision:
        raise TypeError(f"decide() must return a Decision, not {decision!r}")
    for field, wanted, good in (
        ("state", "a Connectivity", isinstance(decision.state, Connectivity)),
        ("picker", "an object with a method `pick`", callable(getattr(decision.picker, "pick", None))),
        ("children", "configs by name; each target is Target(weight, config)", _are_configs(decision.children)),
        ("deactivate", "a frozenset of children's names", _are_texts(decision.deactivate, frozenset)),
        ("hosts", "a tuple of addresses", _are_texts(decision.hosts, tuple)),
        ("connect", "a tuple of addresses", _are_texts(decision.connect, tuple)),
        ("wake_at", "a time on Trio's clock", _is_time(decision.wake_at)),
        ("tasks", "async functions, by the tasks' names", _are_named(decision.tasks, callable)),
        ("ejected", "a frozenset of addresses, or None", _are_texts_or_none(decision.ejected)),
        ("endpoints", "None, or Endpoints by the children's names", _are_endpoints(decision.endpoints)),
        ("re_resolve", "a name", isinstance(decision.re_resolve, str)),
        ("subtree", "left out; it is for the cluster's own policies", decision.subtree == NO_SETTINGS),
        ("trackers", "trackers, with methods `began` and `ended`, by address", _are_trackers(decision.trackers)),
        ("handed_on", "a TraceNote, or None", isinstance(decision.handed_on, TraceNote | None)),
        ("in_first_pass", "a bool", isinstance(decision.in_first_pass, bool)),
    ):
        if not good:
            raise TypeError(f"Decision.{field} is {getattr(decision, field)!r}; it must be {wanted}")


def _are_texts(values: object, kind: type[tuple[object, ...] | frozenset[object]]) -> bool:
    # No other collection: decisions are compared, and one that can be changed or read only once has no fixed value.
    return isinstance(values, kind) and {str}.issuperset(map(type, values))


def _are_texts_or_none(values: object) -> bool:
    return values is None or _are_texts(values, frozenset)


def _are_configs(values: object) -> bool:
    return _are_named(values, _is_config)


def _is_config(value: object) -> bool:
    if isinstance(value, WeightedTargetConfig):
        # Here, because weighted_target would raise past its own decision, and that ends the channel.
        return _are_named(value.targets, _is_target)
    return isinstance(getattr(value, "policy", None), str)


def _is_target(value: object) -> bool:
    return isinstance(value, Target) and type(value.weight) is int and value.weight >= 0 and _is_config(value.config)


def _are_endpoints(values: object) -> bool:
    return values is None or _are_named(values, lambda each: isinstance(each, Endpoints))


def _are_trackers(values: object) -> bool:
    # Each type is checked once, because there may be as many trackers as endpoints.
    return values is None or (
        isinstance(values, Mapping)
        and {str}.issuperset(map(type, values))
        and all(
            callable(getattr(kind, method, None))
            for kind in set(map(type, values.values()))
            for method in _TRACKER_METHODS
        )
    )


def _are_named(values: object, is_good: Callable[[object], bool]) -> bool:
    """Return whether these are good values by their names."""
    return isinstance(values, Mapping) and all(isinstance(key, str) and is_good(value) for key, value in values.items())


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not math.isnan(value)
