"""What a policy is: memory and one plain function, `decide`.

A policy is told everything its node knows and says everything it wants; the node makes the
world match. So a policy is tested with values, without an event loop.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol, runtime_checkable

from trxds.core.connectivity import Connectivity
from trxds.core.observers import Observers

from .circuit_breakers import CircuitBreakers
from .endpoint_set import NO_ENDPOINTS
from .host_trackers import HostTrackers
from .interfaces import SubchannelInterface
from .load_report.load_store import LoadStore
from .pick import QUEUE_PICKER, Picker, TraceNote, Tracker
from .security import Security

CHILD_RETENTION = 15 * 60.0  # seconds that a child not wanted any more stays warm (A28, A56)


class LbConfig(Protocol):
    """A policy's configuration: a frozen value that names the policy it is for."""

    @property
    def policy(self) -> str:
        """The name under which the policy is registered."""
        ...


@dataclass(frozen=True, slots=True)
class PolicyState:
    """What a node tells its parent. `generation` is the newest configuration it has answered."""

    state: Connectivity
    picker: Picker
    generation: int = 0


@dataclass(frozen=True, slots=True)
class PolicyInputs:
    """All that a decision may depend on, apart from the time and the policy's own memory.

    `endpoints` are those that the policy may send to, beside its configuration; a policy above the clusters has what
    their resources say instead. `children` has the latest report of each child, also of those kept warm; a child
    without one has not decided yet. `hosts` has an entry for every address the last decision leased, and `news` the
    addresses of those that have news since then. `pick_events` is what picks left since the last step. `ejected` are
    the addresses that outlier detection above has taken out; a leaf counts them as failed.
    """

    config: Any
    children: Mapping[str, PolicyState] = field(default_factory=dict)
    hosts: Mapping[str, SubchannelInterface] = field(default_factory=dict)
    pick_events: frozenset[Hashable] = frozenset()
    ejected: frozenset[str] = frozenset()
    endpoints: Any = NO_ENDPOINTS
    news: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy wants to be so.

    `children` by name, with their configuration; a child left out ends, or stays warm for `CHILD_RETENTION` when named
    in `deactivate`. Each has all the policy's endpoints, or the part of them that has the child's name; `endpoints`, by
    the child's name, are others. `hosts` are leased; those in `connect`, leased or held by picks, are asked to connect
    if IDLE. `tasks` run in the node's nursery while they are named; another callable under the same name replaces the
    task. `ejected`, if the policy says anything at all, are the addresses taken out for the subtree below. `re_resolve`
    names a DNS name whose addresses seem out of date. `security` is how the subtree's hosts are reached; with another
    one the children begin anew, and those before them go on picking until the new ones can.

    `trackers` hear of RPCs to these addresses that another policy of the cluster chose: a session's, by its cookie.
    Those of the policy's own picks are with the picks. `collects`, if any, is where the policies below attach theirs.
    `handed_on` says for explanations that the picker is a child's, of which and why.
    """

    state: Connectivity
    picker: Picker
    children: Mapping[str, LbConfig] = field(default_factory=dict)
    deactivate: frozenset[str] = frozenset()
    hosts: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    wake_at: float = math.inf
    tasks: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    ejected: frozenset[str] | None = None
    re_resolve: str = ""
    security: Security | None = None
    trackers: Mapping[str, Tracker] | None = None
    collects: HostTrackers | None = None
    endpoints: Mapping[str, Any] | None = None
    handed_on: TraceNote | None = None


@dataclass(frozen=True, slots=True)
class ChannelControl:
    """What a policy may use between its decisions, from picks: all of it plain functions.

    `wish` leaves a wish for the next decision. `hold` leases an address, once however often it
    is called, until `release`; what is held when the node ends is let go then. `find` looks
    without leasing. `observers` are told what the policy, at `path` in the tree, sees of its hosts.
    """

    notify_policy: Callable[[Hashable], None]
    acquire: Callable[[str], SubchannelInterface]
    release: Callable[[str], None]
    lookup: Callable[[str], SubchannelInterface | None]
    random: Random
    limits: CircuitBreakers = field(default_factory=CircuitBreakers)
    loads: LoadStore = field(default_factory=LoadStore)
    observers: Observers = field(default_factory=Observers)
    path: str = ""


class Policy(Protocol):
    """One instance a node; called by its node only, never by two tasks.

    A policy whose `reads_endpoints` is False is not asked when nothing but its endpoints has changed: its children
    get them without it.
    """

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        """What is to be, from what is; `now` is in seconds on Trio's clock. No I/O and no waiting.

        It may be asked twice in a row: a decision that leases new hosts is taken again with them.
        """
        ...


@runtime_checkable
class ExitIdle(Protocol):
    """A policy that may be IDLE until an RPC comes."""

    def exit_idle(self) -> None:
        """Connect at the next decision all the same, as if one had come."""


PolicyFactory = Callable[[ChannelControl], Policy]
CONNECTING = PolicyState(Connectivity.CONNECTING, QUEUE_PICKER)
