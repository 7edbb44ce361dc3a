"""The registry finds a policy by its name (A24): one of trxds's own, or of the program's."""

from __future__ import annotations

from collections.abc import Mapping

from .graceful_switch import GracefulSwitch
from .pick_first import PickFirst
from .policy import ChannelControl, Policy, PolicyFactory
from .policy_options import PolicyOptions
from .round_robin import RoundRobin

# Those of most channels without a control plane.
_COMMON: Mapping[str, PolicyFactory] = {
    "graceful_switch": GracefulSwitch,
    "pick_first": PickFirst,
    "round_robin": RoundRobin,
}


class Registry:
    """The policies of one channel by name; `more` are the program's."""

    def __init__(self, more: Mapping[str, PolicyFactory] | None = None, options: PolicyOptions | None = None) -> None:
        self._factories = {**_COMMON, **(more or {})}
        self._options = options or PolicyOptions()

    def make(self, name: str, channel_control: ChannelControl) -> Policy:
        if name not in self._factories:
            # Imported late: the others are a third of the package `lb` (see `trxds.preload`).
            from .built_in_policies import with_options

            self._factories = {**with_options(self._options), **self._factories}
            if name not in self._factories:
                raise LookupError(f"no load balancing policy {name!r} is known; pass it in open_channel(policies=...)")
        return self._factories[name](channel_control)


def is_built_in(name: str) -> bool:
    """Return whether trxds has a policy of this name."""
    from .built_in_policies import BUILT_IN

    return name in BUILT_IN
