"""A `Plan` is everything that a rehearsal depends on, as values that can be sent to another process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

Resource: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HostBehaviour:
    """How hosts answer: seconds, a share from 0 to 1, and calls at a time; see `trxds.testing.simulation.Behaviour`."""

    latency: float = 0.002
    p99: float | None = None
    error_rate: float = 0.0
    capacity: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
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


@dataclass(frozen=True, slots=True)
class Load:
    """The load of the rehearsal: clients, the sessions of each, and the calls that each makes in a second.

    `timeout` is each call's, and `keepalive` the clients' `keepalive_time`, both in seconds.
    """

    clients: int = 20
    sessions: int = 1
    rps: float = 1.0
    timeout: float = 5.0
    keepalive: float | None = None
    targets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """`resources` are served from the start; `steps` are in the order of their times; `end` is in seconds.

    `addresses` are all hosts, and `names` the addresses of names that clusters look up in DNS. `behaviours` are those
    of single hosts.
    """

    resources: tuple[Resource, ...]
    steps: tuple[Step, ...]
    end: float
    addresses: tuple[str, ...]
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    load: Load = Load()
    seed: int = 0
    delta: bool = False
    behaviour: HostBehaviour = HostBehaviour()
    behaviours: Mapping[str, HostBehaviour] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the plan as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan of a line that `to_json` made."""
        data = json.loads(text)
        data["resources"] = tuple(data["resources"])
        data["steps"] = tuple(
            Step(**{**step, "hosts": tuple(step["hosts"]), "resources": tuple(step["resources"])})
            for step in data["steps"]
        )
        load = data["load"]
        data["load"] = Load(**{**load, "targets": tuple(load["targets"]), "methods": tuple(load["methods"])})
        data["addresses"] = tuple(data["addresses"])
        data["names"] = {name: tuple(each) for name, each in data["names"].items()}
        data["behaviour"] = HostBehaviour(**data["behaviour"])
        data["behaviours"] = {address: HostBehaviour(**each) for address, each in data["behaviours"].items()}
        data["remarks"] = tuple(data["remarks"])
        return cls(**data)
