"""What a watcher is told about a resource: always the whole state, never a change to it."""

from __future__ import annotations

from dataclasses import dataclass

from trxds.core.resource_status import ResourceStatus
from trxds.core.status import Status


@dataclass(frozen=True, slots=True)
class ResourceUpdate:
    """The latest that is known of a resource; either `value` or `error` is there.

    `value` is the last good one, and may be used while `ambient` says what is wrong with the
    present: the last update was invalid, or the control plane cannot be reached. `error` says
    why there is no value. `absent` marks the errors that are an answer: the resource does not
    exist or was deleted, so what it configured must go, and not merely wait. `standing` is that of
    `value`, for who finds something wrong with what it says.

    All errors are UNAVAILABLE; a control plane's codes never reach RPCs (A54, A88).
    """

    value: object | None = None
    error: Status | None = None
    absent: bool = False
    ambient: Status | None = None
    standing: ResourceStatus | None = None
