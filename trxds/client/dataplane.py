"""RPCs read the data plane: config selector and picker as one value, replaced by one assignment (A31, ADR 4)."""

from __future__ import annotations

from collections.abc import Callable

import trio
from msgspec import Struct

from trxds.core.connectivity import Connectivity
from trxds.core.status import Status
from trxds.lb.pick import Picker
from trxds.lb.policy_node import Node
from trxds.resolver.config_selector import ErrorSelector, Selector

from .lifecycle import ChannelLifecycle

_MAX_SETTLE_PASSES = 1000  # passes of Trio's scheduler; a configuration takes some twenty to its leaves and back


class DataPlane(Struct, frozen=True):
    """A `DataPlane` is a consistent pair of selector and picker; an update is noticed by its identity.

    `state` is the root policy's, which it reported with the picker. The tree's own state may be newer.
    """

    selector: Selector
    picker: Picker
    state: Connectivity


class LiveDataPlane:
    """`LiveDataPlane` holds the data plane in force, and parks the tasks that wait for the next one.

    `current` is None before the first configuration and while the channel is IDLE; `tree` is the root of the policies.
    """

    def __init__(self, lifecycle: ChannelLifecycle) -> None:
        self.current: DataPlane | None = None
        self.tree: Node | None = None
        self.on_publish: Callable[[], object] | None = None  # called after each replacement, if anyone has to know
        self._lifecycle = lifecycle
        self._changed = trio.lowlevel.ParkingLot()
        self._is_idle = False

    def publish(self, selector: Selector, picker: Picker, state: Connectivity) -> None:
        """Replace selector and picker, and wake the tasks that wait for a change."""
        # A31: with one assignment no call can see the selector of one configuration and the picker of another.
        self.current = DataPlane(selector, picker, state)
        if self.on_publish is not None:
            self.on_publish()
        self._changed.unpark_all()

    def wake_waiters(self) -> None:
        """Wake the waiting tasks, which then find that the channel has closed."""
        self._changed.unpark_all()

    async def wait_for_change(self, plane: DataPlane | None) -> DataPlane:
        """Wait until the data plane is not `plane`; raises the error of an open call when the channel closes."""
        while self.current is None or self.current is plane:
            if self._lifecycle.closed:
                raise self._lifecycle.closed_error()
            # A call ends IDLE; watching the state does not (connectivity-semantics-and-api.md).
            self.exit_idle()
            await self._changed.park()
        return self.current

    async def wait_for_news(self, plane: DataPlane | None) -> None:
        """Wait until the data plane is another one than `plane`, or the channel closes; IDLE is left alone."""
        await trio.lowlevel.checkpoint()
        while self.current is plane and not self._lifecycle.closed:
            await self._changed.park()

    async def wait_settled(self) -> tuple[Selector, Node]:
        """Wait until no update is on its way through the tree or from it; give up after `_MAX_SETTLE_PASSES`."""
        for _ in range(_MAX_SETTLE_PASSES):
            await trio.lowlevel.checkpoint()
            plane, tree = await self.wait_for_change(None), self.tree
            if self._lifecycle.closed:
                raise self._lifecycle.closed_error()
            if tree is not None and tree.is_settled and plane.picker is tree.picker:
                break
        assert tree is not None
        return plane.selector, tree

    async def wait_for_state_change(self, last: Connectivity | None) -> Connectivity | None:
        """Wait until the channel's state is not `last`; return it, or None when the channel is closed."""
        await trio.lowlevel.checkpoint()
        while not self._lifecycle.closed and self.connectivity is last:
            await self._changed.park()
        return self.connectivity

    # -- IDLE: there is no data plane, because the idle timeout has passed without a call

    def enter_idle(self) -> None:
        """Make the channel IDLE, because the control side is about to end its tree. Synchronous."""
        # No call may use a tree that is about to end, so the next one finds no data plane and waits.
        self.current = self.tree = None
        self._is_idle = True
        # Those that watch the state see IDLE, and copies of calls that wait end (`MirrorPlane`).
        self._changed.unpark_all()

    def exit_idle(self) -> None:
        """End IDLE, because of a call or `try_to_connect`; without effect in other states. Synchronous."""
        if self._is_idle:
            self._is_idle = False
            # Also for those that watch the state, which is CONNECTING from here on.
            self._changed.unpark_all()

    async def wait_exit_idle(self) -> None:
        """Wait until `exit_idle` has ended IDLE."""
        while self._is_idle:
            await self._changed.park()

    # -- what a call would find

    @property
    def connectivity(self) -> Connectivity | None:
        """Return the state that a call would find; None once the channel is closed."""
        if self._lifecycle.closed:
            return None
        if self._is_idle:
            return Connectivity.IDLE
        if self.current is None:
            return Connectivity.CONNECTING
        is_error = isinstance(self.current.selector, ErrorSelector)
        return Connectivity.TRANSIENT_FAILURE if is_error else self.current.state

    @property
    def problem(self) -> Status | None:
        """Return the reason why there is no configuration; None if there is one."""
        selector = self.current.selector if self.current is not None else None
        return selector.status if isinstance(selector, ErrorSelector) else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the flaws of the configuration in force that do not prevent calls."""
        return self.current.selector.warnings if self.current is not None else ()
