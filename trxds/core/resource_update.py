"""The state of a resource as its watchers get it (A88): always the whole state, never a change to it."""

from __future__ import annotations

from msgspec import Struct

from trxds.core.resource_status import ResourceStatus
from trxds.core.status import Status


class ResourceUpdate(Struct, frozen=True, gc=False):
    """The latest state of a resource; either `value` or `error` is set.

    `value` is the last valid one. It may be used while `ambient` describes a present error: the last update was
    invalid, or the control plane cannot be reached. `error` is the reason why there is no value. `absent` marks errors
    that are an answer: the resource does not exist or was deleted, so its configuration must go and not wait.
    `standing` is the status of `value`, for messages about its content.

    All errors are UNAVAILABLE; a control plane's codes never reach RPCs (A54, A88).
    """

    value: object | None = None
    error: Status | None = None
    absent: bool = False
    ambient: Status | None = None
    standing: ResourceStatus | None = None
