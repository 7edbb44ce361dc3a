"""The rules for errors of a resource that is in use: keep it, or drop it (A53, A88).

A server that alerts its operators lets clients go on with the last value. One that does not wants RPCs to fail, so
that somebody notices. The bootstrap says this for each server.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from msgspec import Struct

from trxds.core.status import StatusCode

VARIABLE = "GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING"

# A88: these codes are about the resource; any other is a passing failure of the server.
_ABOUT_THE_RESOURCE = (StatusCode.NOT_FOUND, StatusCode.PERMISSION_DENIED)


class ResourceErrorPolicy(Struct, frozen=True):
    """The rules of one server. `wait` is the resource timeout in seconds; then a resource is absent, or only late."""

    wait: float = 15.0
    late_is_absent: bool = True
    drop_deleted: bool = True
    drop_rejected: bool = False

    def drop_failed(self, code: int) -> bool:
        """Return whether an error in a resource's place (xRFC TP3) drops the value."""
        return self.drop_rejected and code in _ABOUT_THE_RESOURCE


def is_a88_enabled(environ: Mapping[str, str]) -> bool:
    """Return whether the environment enables A88's rules; without it A53's are in force."""
    return environ.get(VARIABLE, "").lower() == "true"


def resource_error_policy(features: Set[str], *, a88: bool) -> ResourceErrorPolicy:
    """Return the rules for a server's features; A53 and A88 each have their own and ignore the other's."""
    if not a88:
        return ResourceErrorPolicy(drop_deleted="ignore_resource_deletion" not in features)
    fail, late = "fail_on_data_errors" in features, "resource_timer_is_transient_error" in features
    # A88: such a server reports absence itself, so its silence only means that the resource is late.
    return ResourceErrorPolicy(30.0 if late else 15.0, late_is_absent=not late, drop_deleted=fail, drop_rejected=fail)
