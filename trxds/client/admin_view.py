"""This file shows a channel to its operators; it implements `trxds.admin.channel_source.ChannelView`."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

from msgspec import Struct

from trxds.core.calls import Calls
from trxds.core.connectivity import Connectivity
from trxds.core.observers import Observers
from trxds.core.plural import plural
from trxds.core.status import Status
from trxds.lb.policy_node import Node
from trxds.session_affinity.session import SessionCookies
from trxds.transport.pool import SubchannelPool
from trxds.transport.subchannel import Subchannel

from .channel_state import ChannelState

if TYPE_CHECKING:
    from trxds.xds.xds_client import XdsClient

_SHOWN = 5  # hosts in warnings

# A host that is tried again is CONNECTING most of the time, if it does not answer at all.
_NOT_THERE = frozenset({Connectivity.TRANSIENT_FAILURE, Connectivity.CONNECTING})


class AdminView(Struct, frozen=True):
    """An `AdminView` reads the channel's own objects each time it is asked; it copies and keeps nothing."""

    state: ChannelState
    pool: SubchannelPool

    @property
    def target(self) -> str:
        """Return the target that the channel was opened with."""
        return self.state.lifecycle.target

    @property
    def created_at(self) -> float:
        """Return the time at which the channel was opened, in seconds on Trio's clock."""
        return self.state.created_at

    @property
    def connectivity(self) -> Connectivity | None:
        """Return the state that a call would find; None once the channel is closed."""
        return self.state.data_plane.connectivity

    @property
    def problem(self) -> Status | None:
        """Return the reason why there is no configuration; None if there is one."""
        return self.state.data_plane.problem

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what is wrong though calls can be made.

        Flaws of the configuration in force, TLS that is not used, calls that are not sticky, and a control plane and
        hosts that are not reached.
        """
        state = self.state
        flaws = state.data_plane.warnings + state.ignored_tls.warnings + state.sessions.unsticky.warnings
        # Without a configuration the `problem` says it.
        lost = _lost_control_planes(self.client) if self.problem is None else ()
        return flaws + lost + _lost_hosts(self.pool.hosts)

    @property
    def calls(self) -> Calls:
        """Return the counts of the channel's calls (A14)."""
        return self.state.calls.counts

    @property
    def tree(self) -> Node | None:
        """Return the root of the policy tree; None while the channel is IDLE."""
        return self.state.data_plane.tree

    @property
    def client(self) -> XdsClient | None:
        """Return the xDS client; None for a target without a control plane."""
        return self.state.client

    @property
    def observers(self) -> Observers:
        """Return the registry of the channel's observers."""
        return self.state.observers

    @property
    def sessions(self) -> Set[SessionCookies]:
        """Return the open sessions."""
        return self.state.sessions.open.keys()


# -- hosts and control planes that are not reached: the channel may serve without them


def _lost_hosts(subchannels: Iterable[Subchannel]) -> tuple[str, ...]:
    """Return a warning for each host whose last connection failed or was lost, and that has none since."""
    lost = {
        each.address: f"no connection to host {each.error.message}"
        for each in subchannels
        if each.error is not None and each.state in _NOT_THERE
    }
    more = len(lost) - _SHOWN
    rest = (f"no connection to {plural(more, 'more host')}; `trxds lb` shows all",) if more > 0 else ()
    return (*[lost[address] for address in sorted(lost)[:_SHOWN]], *rest)


def _lost_control_planes(client: XdsClient | None) -> tuple[str, ...]:
    """Return a warning for each control plane of which no server can be reached."""
    if client is None:
        return ()
    stale, outages = client.stale, client.outages
    if stale:
        return (stale, *(f"the control plane has not answered yet; {outage}" for outage in outages))
    return tuple(f"the control plane is lost, and what it sent before stays in use; {outage}" for outage in outages)
