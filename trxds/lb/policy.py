"""A load balancing policy is memory and one synchronous function, `decide` (A24).

A policy gets all that its node knows and returns all that it wants; the node applies the decision.
So a policy is tested with values, without an event loop.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from random import Random
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from trxds.core.connectivity import Connectivity
from trxds.core.observers import Observers

from .circuit_breakers import CircuitBreakers
from .endpoint_set import NO_ENDPOINTS
from .host_trackers import HostTrackers
from .interfaces import SubchannelInterface
from .load_report.load_store import LoadStore
from .pick import QUEUE_PICKER, Picker, TraceNote, Tracker
from .proxies import Proxies
from .security import Security

CHILD_RETENTION = 15 * 60.0  # seconds for which a deactivated child keeps running (A28, A56)

# One for all: each `frozenset()` is an object of 216 bytes, and a thousand clusters have six thousand decisions.
EMPTY_SET: frozenset[Any] = frozenset()
_NO_ITEMS: Mapping[str, Any] = MappingProxyType({})
# A dataclass takes no unhashable default, and this yields the one empty mapping without a function of Python.
_no_items: Callable[[], Mapping[str, Any]] = repeat(_NO_ITEMS).__next__


class LbConfig(Protocol):
    """A policy's configuration: a frozen, comparable value with the name of its policy."""

    @property
    def policy(self) -> str:
        """The name under which the policy is registered."""
        ...


class PolicyState(Struct, frozen=True):
    """A policy's report to its parent: connectivity state and picker, as in C-core's `UpdateState`.

    `generation` is the number of the newest configuration that the report answers. `in_first_pass` is the decision's.
    """

    state: Connectivity
    picker: Picker
    generation: int = 0
    in_first_pass: bool = False


class PolicyInputs(Struct, frozen=True):
    """All that a decision may depend on, apart from the time and the policy's own memory.

    `config` is the policy's configuration; `endpoints` are those that it may send RPCs to (above the clusters, the
    entries of the clusters). `children` has the latest report of each child, also of deactivated ones; a child without
    one has not decided yet. `hosts` has the subchannel of every address that the last decision leased, and `news` the
    addresses of those that changed since then. `pick_events` are the values that picks passed to
    `ChannelControl.notify_policy` since the last decision. `ejected` are the addresses that outlier detection above has
    ejected; a leaf counts them as failed (A50).
    """

    config: Any
    children: Mapping[str, PolicyState] = _NO_ITEMS
    hosts: Mapping[str, SubchannelInterface] = _NO_ITEMS
    pick_events: frozenset[Hashable] = EMPTY_SET
    ejected: frozenset[str] = EMPTY_SET
    endpoints: Any = NO_ENDPOINTS
    news: frozenset[str] = EMPTY_SET


class SubtreeSettings(Struct, frozen=True):
    """What the policies of a cluster say of the subtree below them.

    `security` says how its hosts are reached (A29), and `proxies` by which way (A86); with others the children are
    replaced, and the old ones go on picking until the new ones can. `collects`, if any, is where the policies below
    attach their trackers. `max_connections` is how many connections each host may have for want of streams, None if
    others say it (A105); a policy that has said it once goes on to do so.
    """

    security: Security | None = None
    proxies: Proxies | None = None
    collects: HostTrackers | None = None
    max_connections: int | None = None


NO_SETTINGS = SubtreeSettings()


@dataclass(slots=True)  # not frozen, which would take two microseconds longer, eleven times for each cluster
class Decision:
    """The complete state that a policy wants; its node makes the changes.

    `state` and `picker` are reported to the parent. `children` are configurations by the child's name. A child that is
    left out ends, or keeps running for `CHILD_RETENTION` seconds if `deactivate` names it (A56). Each child gets all
    the policy's endpoints, or the part that has the child's name, unless `endpoints` has others under its name. `hosts`
    are the addresses to lease; those in `connect`, leased here or acquired by picks, are asked to connect if IDLE. At
    `wake_at`, in seconds on Trio's clock, the policy decides again. `tasks` run in the node's nursery while decisions
    name them; a callable that is not equal to the one before under its name replaces the task. `ejected`, unless None,
    are the addresses ejected for the subtree below (A50). `re_resolve` is a DNS name whose addresses may be out of
    date. `subtree` is for a cluster's own policies.

    `trackers`, by address, are called for RPCs that another policy of the cluster sends there: those of sessions, by
    their cookies (A55). Trackers of the policy's own picks are part of the picks. `handed_on` says for explanations
    that the picker is a child's, of which and why. `in_first_pass` says that a host which the picker will have, once it
    is READY, connects for the first time: the first calls of sessions wait for it (`first_pass.py`).
    """

    state: Connectivity
    picker: Picker
    children: Mapping[str, LbConfig] = field(default_factory=_no_items)
    deactivate: frozenset[str] = EMPTY_SET
    hosts: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    wake_at: float = math.inf
    tasks: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=_no_items)
    ejected: frozenset[str] | None = None
    re_resolve: str = ""
    subtree: SubtreeSettings = NO_SETTINGS
    trackers: Mapping[str, Tracker] | None = None
    endpoints: Mapping[str, Any] | None = None
    handed_on: TraceNote | None = None
    in_first_pass: bool = False


@dataclass(frozen=True, slots=True)
class ChannelControl:
    """The functions and values of its channel that a policy may use, also from its picks. None of them blocks.

    `notify_policy` passes a value to the next decision, in `PolicyInputs.pick_events`. `acquire` leases an address,
    once however often it is called, until `release` or until the node ends. `lookup` returns the subchannel that
    somebody in the channel leases, or None, without leasing it. Take random numbers from `random`. `circuit_breakers`
    and `loads` count the RPCs of a cluster for circuit breaking (A32) and LRS. `observers` are called with what the
    policy, at `path` in the tree, sees of its hosts.
    """

    notify_policy: Callable[[Hashable], None]
    acquire: Callable[[str], SubchannelInterface]
    release: Callable[[str], None]
    lookup: Callable[[str], SubchannelInterface | None]
    random: Random
    circuit_breakers: CircuitBreakers = field(default_factory=CircuitBreakers)
    loads: LoadStore = field(default_factory=LoadStore)
    observers: Observers = field(default_factory=Observers)
    path: str = ""


class Policy(Protocol):
    """A load balancing policy (A24). Each node of the tree has its own instance, and only the node's task calls it.

    A policy whose `reads_endpoints` is False does not decide when only its endpoints have changed: its children
    get them directly. If `connects_idle_children` is True, its children that are IDLE connect without an RPC.
    """

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        """Return the wanted state for these inputs; `now` is in seconds on Trio's clock.

        It does no I/O and does not wait.

        It may be called twice in a row: a decision that leases new hosts is repeated with them. While it raises, the
        RPCs of the subtree fail with INTERNAL.
        """
        ...


@runtime_checkable
class ExitIdle(Protocol):
    """A policy that may be IDLE until an RPC comes (C-core's `ExitIdleLocked`)."""

    def exit_idle(self) -> None:
        """Connect at the next decision, as if an RPC had come."""


@runtime_checkable
class Describes(Protocol):
    """A policy that describes what it sees, for `trxds lb` and explanations."""

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        """Return in a few words what the policy sees, such as `2 of 3 endpoints READY`. It changes nothing."""


PolicyFactory = Callable[[ChannelControl], Policy]
CONNECTING = PolicyState(Connectivity.CONNECTING, QUEUE_PICKER)
"""The report of a child that has none yet: RPCs wait."""
