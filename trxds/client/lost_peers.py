"""The warnings of a channel about hosts and control planes that it cannot reach, though it may serve without them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from trxds.core.connectivity import Connectivity
from trxds.core.plural import plural
from trxds.transport.subchannel import Subchannel

if TYPE_CHECKING:
    from trxds.xds.xds_client import XdsClient

_SHOWN = 5  # hosts

# A host that is tried again is CONNECTING most of the time, if it does not answer at all.
_NOT_THERE = frozenset({Connectivity.TRANSIENT_FAILURE, Connectivity.CONNECTING})


def lost_hosts(subchannels: Iterable[Subchannel]) -> tuple[str, ...]:
    """Return a warning for each host whose last connection failed or was lost, and that has none since."""
    lost = {
        each.address: f"no connection to host {each.error.message}"
        for each in subchannels
        if each.error is not None and each.state in _NOT_THERE
    }
    more = len(lost) - _SHOWN
    rest = (f"no connection to {plural(more, 'more host')}; `trxds lb` shows all",) if more > 0 else ()
    return (*[lost[address] for address in sorted(lost)[:_SHOWN]], *rest)


def lost_control_planes(client: XdsClient | None) -> tuple[str, ...]:
    """Return a warning for each control plane of which no server can be reached."""
    if client is None:
        return ()
    stale, outages = client.stale, client.outages
    if stale:
        return (stale, *(f"the control plane has not answered yet; {outage}" for outage in outages))
    return tuple(f"the control plane is lost, and what it sent before stays in use; {outage}" for outage in outages)
