"""The tree as it stands, for who looks at all of it: node by node, parents before their children."""

from __future__ import annotations

import logging

from trxds.ground.status import Status

from .explain import said
from .pick import Always, Drop, Fail, PickArgs
from .policy import Inputs, Report


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
