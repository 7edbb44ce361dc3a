"""What a channel shares with its RPCs, which live in their users' tasks."""

from __future__ import annotations

from random import Random

import trio

from trxds.core.observers import Observers

from .call_registry import CallRegistry
from .call_settings import CallSettings
from .dataplane import LiveDataPlane
from .lifecycle import ChannelLifecycle
from .resolver_setup import ResolverSetup
from .retry_throttle import RetryThrottle
from .session_registry import SessionRegistry


class ChannelState:
    """The parts of a channel, each of which is what its name says; `awaited` is what its first calls wait for."""

    def __init__(
        self, target: str, origin: ResolverSetup, defaults: CallSettings, random: Random, observers: Observers
    ) -> None:
        self.authority = origin.authority
        self.defaults = defaults
        self.random = random
        self.now = trio.lowlevel.current_clock().current_time  # `trio.current_time` takes three calls to it
        self.throttle = RetryThrottle(origin.throttling) if origin.throttling else None  # of retries and hedges
        self.awaited = origin.awaited
        self.lifecycle = ChannelLifecycle(target)
        self.data_plane = LiveDataPlane(self.lifecycle)
        self.calls = CallRegistry()
        self.sessions = SessionRegistry(observers, self.lifecycle, self.now)
        self.client = origin.client  # for who asks what it knows
        self.observers = observers
        self.created_at = self.now()

    def close(self, crash: BaseException | None = None) -> None:
        """End every call, in whatever nursery it runs. Plain and idempotent."""
        if not self.lifecycle.closed:
            self.lifecycle.close(crash)
            self.data_plane.wake_waiters()
            self.calls.cancel_all()
