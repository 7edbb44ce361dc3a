"""A guard around each policy turns its exceptions into a failed subtree, because a policy may be the user's own."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace

from trxds.core.connectivity import Connectivity
from trxds.core.status import Status, StatusCode

from .pick import QUEUE_PICKER, TraceNote, transient_failure_picker
from .policy import Decision, Describes, ExitIdle, Policy, PolicyInputs

_log = logging.getLogger("trxds.lb")

_UNDECIDED = Decision(Connectivity.CONNECTING, QUEUE_PICKER)  # before the first one


class GuardedPolicy:
    """A policy, made at its first decision, whose exceptions fail the RPCs of its subtree and not the channel."""

    __slots__ = (
        "_make",
        "_path",
        "_policy",
        "connects_idle_children",
        "decision",
        "must_decide",
        "reads_endpoints",
        "wake_at",
    )

    def __init__(self, path: str, make: Callable[[], Policy]) -> None:
        self.decision = _UNDECIDED  # the last one
        self.must_decide = True  # it has not decided yet, or has raised
        self.reads_endpoints = True
        self.connects_idle_children = False
        self.wake_at = math.inf  # when it has to decide even if nothing happens
        self._path = path
        self._make = make
        self._policy: Policy | None = None  # until the first decision

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        """Return the policy's decision. If it raises, return one that fails all RPCs."""
        try:
            if self._policy is None:
                self._policy = self._make()
            decision = self._policy.decide(inputs, now)
            self.must_decide, self.decision, self.wake_at = False, decision, decision.wake_at
            self.reads_endpoints = getattr(self._policy, "reads_endpoints", True)
            self.connects_idle_children = getattr(self._policy, "connects_idle_children", False)
            return decision
        except Exception:
            self.must_decide = True
            _log.exception("policy %s raised; its RPCs fail until it decides again", self._path)
            status = Status(StatusCode.INTERNAL, f"load balancing policy {self._path} raised an exception, see the log")
            # All else stays as it was, so that the next decision finds its children and hosts. A `wake_at` in the
            # past is dropped: it would wake the policy again at once, and for ever.
            self.wake_at = self.decision.wake_at if self.decision.wake_at > now else math.inf
            return replace(self.decision, state=Connectivity.TRANSIENT_FAILURE, picker=transient_failure_picker(status))

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        """Return the policy's description of what it sees; empty if it has none."""
        try:
            policy: object = self._policy
            return policy.describe(inputs, now) if isinstance(policy, Describes) and not self.must_decide else ""
        except Exception:
            # The live page asks ten times a second, so an exception is not worth an error in the log each time.
            _log.debug("policy %s raised in describe()", self._path, exc_info=True)
            return ""

    @property
    def only_child(self) -> str:
        """The key of the policy's child, if it never has another; empty if its children have names of their own."""
        return getattr(self._policy, "only_child", "")

    @property
    def handed_on(self) -> TraceNote | None:
        """The reason why the last decision's picker is a child's, if it gives one."""
        return None if self.must_decide else self.decision.handed_on

    def exit_idle(self) -> bool:
        """Have the policy connect without an RPC if it is IDLE; return whether it has to decide again."""
        policy: object = self._policy
        if not isinstance(policy, ExitIdle):
            return False
        try:
            policy.exit_idle()
        except Exception:
            _log.exception("policy %s raised in exit_idle()", self._path)
        return True
