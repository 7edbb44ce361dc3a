"""How a policy says what it would do with an RPC, without doing it.

Pickers know nothing of this: an RPC pays nothing for being explicable. A policy is asked with the
inputs of its last decision, so it can say what its picker does and from what it was made.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias, assert_never, runtime_checkable

from trxds.config.steps import Drops, Fails, Outcome, Step, ToHost, Unknown, Waits
from trxds.ground.connectivity import Connectivity
from trxds.ground.status import Status

from .node_snapshot import NodeSnapshot
from .pick import Always, Complete, Drop, Fail, PickArgs, PickResult, Queue
from .policy import Inputs, Report
from .ports import Host

_log = logging.getLogger("trxds.lb")

Then: TypeAlias = str | Outcome  # a child's name, or what becomes of the RPC


@dataclass(frozen=True, slots=True)
class Said:
    """What the policy saw, what it chose and why; `then` is the child to ask next, or the end."""

    saw: str
    chose: str
    why: str
    then: Then


@runtime_checkable
class Explains(Protocol):
    """What a policy may have besides `decide`."""

    def explain(self, inputs: Inputs, call: PickArgs) -> Said:
        """What its picker would do with `call` now. Wishes, leases and connects nothing, and takes no turn."""


class Explained(Protocol):
    """A node of the tree, as its parent asks it."""

    def explain(self, call: PickArgs) -> Iterator[Step]: ...

    def wake(self) -> None: ...

    @property
    def settled(self) -> bool:
        """No news is on its way through it, so that parents and children say the same."""

    def survey(self, path: str, parent: str | None = None, warm: bool = False) -> Iterator[NodeSnapshot]: ...


def said(
    name: str, policy: object, inputs: Inputs, last: Report | None, call: PickArgs, complain: int = logging.ERROR
) -> Said:
    """What the policy says of itself, or what can be seen from outside. `complain` is the level of what goes wrong."""
    try:
        if isinstance(policy, Explains):
            return policy.explain(inputs, call)
    except Exception:
        _log.log(complain, "policy %s raised when it was to explain itself", name, exc_info=True)
    return _from_outside(name, inputs, last)


def _from_outside(name: str, inputs: Inputs, last: Report | None) -> Said:
    if last is None:
        return Said("nothing yet", "to wait", "it has not decided yet", Waits(f"{name} to decide"))
    saw = f"itself {last.state.name}"
    for child, report in inputs.children.items():
        if report.picker is last.picker:
            return Said(saw, child, "its picker is this child's", child)
    if isinstance(last.picker, Always):
        return Said(saw, "the same for every RPC", "it has decided so", outcome(last.picker.result))
    return Said(saw, "one of what it has", "it does not explain itself", Unknown(name))


def outcome(result: PickResult) -> Outcome:
    match result:
        case Complete(host):
            return ToHost(host.address, host.state)
        case Queue():
            return Waits("the tree to change")
        case Fail(status):
            return Fails(status)
        case Drop(status):
            return Drops(status)
        case _ as never:
            assert_never(never)


# -- words that several policies use


def to_host(saw: str, host: Host, why: str) -> Said:
    return Said(saw, host.address, why, ToHost(host.address, host.state))


def to_wait(saw: str, what_for: str, why: str, address: str = "") -> Said:
    return Said(saw, "to wait", why, Waits(what_for, address))


def to_fail(saw: str, status: Status, why: str) -> Said:
    return Said(saw, "to fail", why, Fails(status))


def to_drop(saw: str, status: Status, why: str) -> Said:
    return Said(saw, "to drop it", why, Drops(status))


def counted(states: Iterable[Connectivity]) -> str:
    """`2 of 3 endpoints READY, 1 CONNECTING`."""
    counts = Counter(states)
    total = sum(counts.values())
    ready = counts.pop(Connectivity.READY, 0)
    return ", ".join(
        [f"{ready} of {total} endpoints READY", *(f"{count} {state.name}" for state, count in counts.items())]
    )
