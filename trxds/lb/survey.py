"""The tree as it stands, for who looks at all of it: node by node, parents before their children."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trxds.ground.connectivity import Connectivity
from trxds.ground.status import Status

from .explain import said
from .pick import Always, Drop, Fail, PickArgs
from .policy import Inputs, Report
from .ports import Host


@dataclass(frozen=True, slots=True)
class Seen:
    """One node. `hosts` are those that it has a lease on; `ejected` what outlier detection has taken out below it.

    `warm`: it is kept for the case that it is wanted again, and gets no picks. `config` is None before the first;
    `endpoints` are what is beside it, as in `Inputs`.
    """

    path: str
    parent: str | None  # its path
    policy: str
    state: Connectivity
    says: str
    config: Any
    hosts: Mapping[str, Host]
    ejected: frozenset[str]
    warm: bool
    endpoints: Any


def in_words(path: str, policy: object, inputs: Inputs, last: Report | None) -> str:
    """What a policy sees, whatever the RPC, and why it fails all of them if it does."""
    # A hash that is drawn for an RPC that has none would be another one each time.
    # This is asked ten times a second, so a user's policy that raises is no news.
    saw = said(path, policy, inputs, last, PickArgs("", hash=0), logging.DEBUG).saw.partition("; hash ")[0]
    problem = _for_all(last)
    return f"{saw}; {problem.message}" if problem is not None and problem.message not in saw else saw


def _for_all(last: Report | None) -> Status | None:
    match last:
        case Report(picker=Always(Fail(status) | Drop(status))):
            return status
    return None
