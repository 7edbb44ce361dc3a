"""What RPCs read: selector and picker, swapped together by one assignment (ADR 4)."""

from __future__ import annotations

from dataclasses import dataclass

import trio

from trxds.core.connectivity import Connectivity
from trxds.core.status import Status
from trxds.lb.node import Node
from trxds.lb.pick import Picker
from trxds.resolver.config_selector import ErrorSelector, Selector

from .lifecycle import ChannelLifecycle

_SETTLE_TIMEOUT = 1000  # passes of Trio's scheduler; a configuration takes some twenty to its leaves and back


@dataclass(frozen=True, slots=True)
class DataPlane:
    """One consistent pair; compared by identity to see that something has changed."""

    selector: Selector
    picker: Picker


class LiveDataPlane:
    """The data plane in force, and whoever waits for another one.

    `current` is None before the first configuration and while the channel is IDLE; `tree` is the root of the policies.
    """

    def __init__(self, lifecycle: ChannelLifecycle) -> None:
        self.current: DataPlane | None = None
        self.tree: Node | None = None
        self._lifecycle = lifecycle
        self._changed = trio.lowlevel.ParkingLot()
        self._alarm: trio.Event | None = None  # while the control side sleeps

    def publish(self, selector: Selector, picker: Picker) -> None:
        """Put another pair into force."""
        # A31: with one assignment no call can see the selector of one configuration and the picker of another.
        self.current = DataPlane(selector, picker)
        self._changed.unpark_all()

    def wake_waiters(self) -> None:
        """The channel has closed: whoever waits for a data plane is to find that out."""
        self._changed.unpark_all()

    async def wait_for_change(self, plane: DataPlane | None) -> DataPlane:
        """Wait until the data plane is another than this one. Raises what a call raises when the channel closes."""
        while self.current is None or self.current is plane:
            if self._lifecycle.closed:
                raise self._lifecycle.closed_error()
            # A call ends IDLE; who only watches the state does not (connectivity-semantics-and-api.md).
            self.exit_idle()
            await self._changed.park()
        return self.current

    async def wait_settled(self) -> tuple[Selector, Node]:
        """Wait until no news is on its way through the tree or from it; in a flood of it, for a while."""
        for _ in range(_SETTLE_TIMEOUT):
            await trio.lowlevel.checkpoint()
            plane, tree = await self.wait_for_change(None), self.tree
            if self._lifecycle.closed:
                raise self._lifecycle.closed_error()
            if tree is not None and tree.is_settled and plane.picker is tree.picker:
                break
        assert tree is not None
        return plane.selector, tree

    async def wait_for_state_change(self, last: Connectivity | None) -> Connectivity | None:
        """Wait until the channel's state is another than `last`; None when the channel is closed."""
        await trio.lowlevel.checkpoint()
        while not self._lifecycle.closed and self.connectivity is last:
            await self._changed.park()
        return self.connectivity

    # -- IDLE: there is no data plane, because nobody has called for long

    def enter_idle(self) -> None:
        """The control side is about to end. Plain."""
        # No call may go by a tree that is about to end, so the next one finds nothing and waits.
        self.current = self.tree = None
        self._alarm = trio.Event()
        self._changed.unpark_all()

    def exit_idle(self) -> None:
        """Somebody calls, or wants the channel connected. Plain; nothing if it is awake."""
        if self._asleep and self._alarm is not None:
            self._alarm.set()
            self._changed.unpark_all()

    async def wait_exit_idle(self) -> None:
        """Wait until somebody calls."""
        if self._alarm is not None:
            await self._alarm.wait()

    @property
    def _asleep(self) -> bool:
        return self._alarm is not None and not self._alarm.is_set()

    # -- what it means for a call

    @property
    def connectivity(self) -> Connectivity | None:
        """What a call would find; None once the channel is closed."""
        if self._lifecycle.closed:
            return None
        if self._asleep:
            return Connectivity.IDLE
        if self.current is None or self.tree is None:
            return Connectivity.CONNECTING
        return Connectivity.TRANSIENT_FAILURE if isinstance(self.current.selector, ErrorSelector) else self.tree.state

    @property
    def problem(self) -> Status | None:
        """Why there is no configuration, if there is none."""
        selector = self.current.selector if self.current is not None else None
        return selector.status if isinstance(selector, ErrorSelector) else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with the configuration in force, though calls can be made by it."""
        return self.current.selector.warnings if self.current is not None else ()
