"""What a channel shows to its operators: the implementation of `trxds.admin.channel_source.ChannelView`."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from trxds.core.calls import Calls
from trxds.core.connectivity import Connectivity
from trxds.core.observers import Observers
from trxds.core.status import Status
from trxds.lb.node import Node
from trxds.session_affinity.session import SessionCookies
from trxds.transport.pool import SubchannelPool
from trxds.xds.xds_client import XdsClient

from .channel_state import ChannelState


@dataclass(frozen=True, slots=True)
class AdminView:
    """Reads the channel's own objects at the moment of each question; nothing is copied or kept."""

    state: ChannelState
    pool: SubchannelPool

    @property
    def target(self) -> str:
        """What the channel was opened to."""
        return self.state.lifecycle.target

    @property
    def created_at(self) -> float:
        """When the channel was opened, in seconds on Trio's clock."""
        return self.state.created_at

    @property
    def connectivity(self) -> Connectivity | None:
        """The state as a call would find it; None once the channel is closed."""
        return self.state.data_plane.connectivity

    @property
    def problem(self) -> Status | None:
        """Why there is no configuration, if there is none."""
        return self.state.data_plane.problem

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with the configuration in force, though calls can be made by it."""
        return self.state.data_plane.warnings + self.state.sessions.unsticky.warnings

    @property
    def calls(self) -> Calls:
        """How the channel's calls went."""
        return self.state.calls.counts

    @property
    def tree(self) -> Node | None:
        """The root of the policy tree; None while the channel is IDLE."""
        return self.state.data_plane.tree

    @property
    def client(self) -> XdsClient | None:
        """The xDS client; None for a target without a control plane."""
        return self.state.client

    @property
    def observers(self) -> Observers:
        """Where an observer of the channel registers."""
        return self.state.observers

    @property
    def sessions(self) -> Set[SessionCookies]:
        """The sessions that are open."""
        return self.state.sessions.open
