"""A `Plan` is everything that a rehearsal depends on, as values that can be sent to another process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

Resource: TypeAlias = Mapping[str, Any]


class HostBehaviour(Struct, frozen=True):
    """How hosts answer: seconds, a share from 0 to 1, and calls at a time; see `trxds.testing.simulation.Behaviour`."""

    latency: float = 0.002
    p99: float | None = None
    error_rate: float = 0.0
    capacity: int | None = None


class Step(Struct, frozen=True):
    """A step of a rehearsal: at `at` seconds it does `action` to `hosts`, and undoes it after `lasts` seconds.

    `value` is a latency in seconds, or a share; `resources` replace those of the control plane.
    """

    at: float
    action: str
    label: str
    hosts: tuple[str, ...] = ()
    lasts: float | None = None
    value: float = 0.0
    resources: tuple[Resource, ...] = ()


class Call(Struct, frozen=True):
    """A kind of call: its path, and its metadata as texts, those of `-bin` keys in base64."""

    path: str
    metadata: tuple[tuple[str, str], ...] = ()


class Load(Struct, frozen=True):
    """The load of the rehearsal: clients, the sessions of each, and the calls that each makes in a second.

    `timeout` is each call's, and `keepalive` the clients' `keepalive_time`, both in seconds. `targets` have the calls
    that are made there.
    """

    clients: int = 20
    sessions: int = 1
    rps: float = 1.0
    timeout: float = 5.0
    keepalive: float | None = None
    targets: Mapping[str, tuple[Call, ...]] = field(default_factory=dict)


class Plan(Struct, frozen=True):
    """`resources` are served from the start; `steps` are in the order of their times; `end` is in seconds.

    `bootstrap` is the clients', but for the node's id. `addresses` are all hosts, and `names` the addresses of names
    that clusters look up in DNS. `behaviours` are those of single hosts. `untried` are notes of what no call tries, and
    `remarks` all others.
    """

    resources: tuple[Resource, ...]
    steps: tuple[Step, ...]
    end: float
    addresses: tuple[str, ...]
    bootstrap: Mapping[str, Any]
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    load: Load = Load()
    seed: int = 0
    delta: bool = False
    behaviour: HostBehaviour = HostBehaviour()
    behaviours: Mapping[str, HostBehaviour] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the plan as one line."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan of a line that `to_json` made."""
        return msgspec.json.decode(text, type=cls)
