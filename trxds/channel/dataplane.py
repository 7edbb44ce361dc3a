"""What RPCs read: selector and picker, swapped together, and the calls that are open (ADR 4)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import TYPE_CHECKING

import trio

from trxds.affinity.session import SessionCookies
from trxds.config.select import ErrorSelector, Selector
from trxds.config.service_config import Throttling
from trxds.ground.calls import Calls
from trxds.ground.connectivity import Connectivity
from trxds.ground.observers import Observers
from trxds.ground.status import RpcError, Status, StatusCode, TrxdsInternalError
from trxds.lb.pick import Picker

from .defaults import CallDefaults
from .throttle import Throttle

if TYPE_CHECKING:
    from trxds.ads.client import XdsClient
    from trxds.lb.node import Node

    from .rpc import Rpc

_PATIENCE = 1000  # passes of Trio's scheduler; a configuration takes some twenty to its leaves and back


@dataclass(frozen=True, slots=True)
class DataPlane:
    """One consistent pair; compared by identity to see that something has changed."""

    selector: Selector
    picker: Picker


@dataclass(frozen=True, slots=True)
class NextConfiguration:
    """What an RPC waits for that waits for ready while there are no routes.

    `str` says what is wrong when it is asked, not when the wait began.
    """

    state: ChannelState

    def __str__(self) -> str:
        problem = self.state.problem
        return "a configuration" + (f"; the present one is in error: {problem.message}" if problem is not None else "")


class ChannelState:
    """Shared by a channel and its RPCs, which live in their users' tasks.

    The data plane is one attribute: a new one is an assignment and a wake-up of whoever waits.
    """

    def __init__(
        self,
        target: str,
        authority: str,
        defaults: CallDefaults,
        random: Random,
        client: XdsClient | None,
        observers: Observers,
    ) -> None:
        self.first_awaited: object = "a configuration from the control plane"  # for who has waited in vain
        self.target = target
        self.authority = authority
        self.defaults = defaults
        self.random = random
        self.now = trio.lowlevel.current_clock().current_time  # `trio.current_time` takes three calls to it
        self.throttle: Throttle | None = None  # of retries and hedges
        self.plane: DataPlane | None = None
        self.tree: Node | None = None  # its root, for who asks why
        self.client = client  # for who asks what it knows
        self.rpcs: set[Rpc] = set()
        self.sessions: set[SessionCookies] = set()  # that are open, for who asks
        self.calls_begun = self.calls_succeeded = 0
        self.created_at = self.now()
        self.last_call = -math.inf  # when it began, on Trio's clock
        self.explaining = 0  # of `rpcs`: they ask for an explanation and are no calls
        self.closed = False
        self.crash: BaseException | None = None
        self._changed = trio.lowlevel.ParkingLot()
        self._alarm: trio.Event | None = None  # while the control side sleeps
        self._process = os.getpid()
        self._orphaned = False
        self._session_numbers = count(1)
        self.observers = observers

    @contextmanager
    def session(self, wait_for_first: bool) -> Iterator[SessionCookies]:
        """A session for as long as the block lasts."""
        if self.closed:
            raise self.refusal()
        session = SessionCookies(wait_for_first, next(self._session_numbers))
        self.sessions.add(session)
        self.observers.session_opened(session.number)
        try:
            yield session
        finally:
            self.sessions.discard(session)
            self.observers.session_closed(session.number)

    def throttle_by(self, rules: Throttling | None) -> None:
        """What a service config says of retries, now or anew."""
        self.throttle = Throttle(rules, self.throttle) if rules is not None else None

    def publish(self, selector: Selector, picker: Picker) -> None:
        self.plane = DataPlane(selector, picker)
        self._changed.unpark_all()

    async def other_than(self, plane: DataPlane | None) -> DataPlane:
        """The data plane, once it is another than this one. Raises what a call raises when the channel closes."""
        while self.plane is None or self.plane is plane:
            if self.closed:
                raise self.ending()
            self.wake()
            await self._changed.park()
        return self.plane

    async def at_rest(self) -> tuple[Selector, Node]:
        """What calls go by, once no news is on its way through the tree or from it; in a flood of it, after a while."""
        await trio.lowlevel.checkpoint()
        for _ in range(_PATIENCE):
            plane, tree = await self.other_than(None), self.tree
            if tree is not None and tree.settled and plane.picker is tree.picker:
                return plane.selector, tree
            await trio.lowlevel.checkpoint()
        plane = await self.other_than(None)
        assert self.tree is not None
        return plane.selector, self.tree

    async def other_state(self, last: Connectivity | None) -> Connectivity | None:
        """Where the channel stands, once that is elsewhere than `last`; None when it is closed."""
        await trio.lowlevel.checkpoint()
        while not self.closed and self.connectivity is last:
            await self._changed.park()
        return self.connectivity

    # -- asleep: there is no data plane, because nobody has called for long

    def sleep(self) -> None:
        """The control side is about to end. Plain."""
        self.plane = self.tree = None
        self._alarm = trio.Event()
        self._changed.unpark_all()

    def wake(self) -> None:
        """Somebody calls, or wants the channel connected. Plain; nothing if it is awake."""
        if self._asleep and self._alarm is not None:
            self._alarm.set()
            self._changed.unpark_all()

    async def woken(self) -> None:
        """Wait until somebody does."""
        if self._alarm is not None:
            await self._alarm.wait()

    @property
    def _asleep(self) -> bool:
        return self._alarm is not None and not self._alarm.is_set()

    @property
    def calls(self) -> Calls:
        """What came of all calls of this channel; each is counted once, with all its attempts."""
        failed = self.calls_begun - self.calls_succeeded - (len(self.rpcs) - self.explaining)
        return Calls(self.calls_begun, self.calls_succeeded, failed, self.last_call)

    @property
    def connectivity(self) -> Connectivity | None:
        """What a call would find; None once the channel is closed."""
        if self.closed:
            return None
        if self._asleep:
            return Connectivity.IDLE
        if self.plane is None or self.tree is None:
            return Connectivity.CONNECTING
        return Connectivity.TRANSIENT_FAILURE if isinstance(self.plane.selector, ErrorSelector) else self.tree.state

    @property
    def problem(self) -> Status | None:
        """Why there is no configuration, if there is none."""
        selector = self.plane.selector if self.plane is not None else None
        return selector.status if isinstance(selector, ErrorSelector) else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with the configuration in force, though calls can be made by it."""
        return self.plane.selector.warnings if self.plane is not None else ()

    def close(self, crash: BaseException | None = None) -> None:
        """End every call, in whatever nursery it runs. Plain and idempotent."""
        if self.closed:
            return
        self.closed, self.crash = True, crash
        self._changed.unpark_all()
        for rpc in tuple(self.rpcs):
            rpc.abandon()

    def orphan(self) -> None:
        """This process is a fork of the channel's. Plain; nothing is sent or woken, for all of that is the parent's."""
        self.closed = self._orphaned = True
        for rpc in self.rpcs:
            rpc.orphan()

    def check_process(self) -> None:
        """Raises in a fork."""
        if self._orphaned:
            raise self.ending()

    def refusal(self) -> Exception:
        """What a call raises that begins when the channel is closed."""
        if self._orphaned:
            return self.ending()
        return trio.ClosedResourceError(f"the channel to {self.target} is closed")

    def ending(self) -> Exception:
        """What a call raises that was open when the channel closed."""
        if self._orphaned:
            return RuntimeError(
                f"the channel to {self.target} was opened in process {self._process}, of which this one is a fork: "
                "its tasks and connections stayed there; open a channel after the fork"
            )
        if self.crash is None:
            return RpcError(Status(StatusCode.CANCELLED, "channel closed"))
        error = TrxdsInternalError(f"a bug in trxds ended the channel to {self.target}; please report it")
        error.__cause__ = self.crash
        return error
