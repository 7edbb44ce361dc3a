"""`ChannelState` is the state that a channel shares with its RPCs, which run in their callers' tasks."""

from __future__ import annotations

from random import Random

import trio

from trxds.core.observers import Observers

from .call_registry import CallRegistry
from .call_settings import CallSettings
from .credentials import ChannelCredentials
from .dataplane import LiveDataPlane
from .ignored_tls import IgnoredTls
from .lifecycle import ChannelLifecycle
from .resolver_setup import ResolverSetup
from .retry_throttle import RetryThrottle
from .session_registry import SessionRegistry


class ChannelState:
    """A `ChannelState` holds the parts of a channel; `str(first_wait)` names the object of its first calls' wait."""

    def __init__(
        self,
        target: str,
        setup: ResolverSetup,
        defaults: CallSettings,
        random: Random,
        observers: Observers,
        credentials: ChannelCredentials,
    ) -> None:
        self.authority = setup.authority
        self.defaults = defaults
        self.random = random
        self.now = trio.lowlevel.current_clock().current_time  # `trio.current_time` takes three calls to it
        self.throttle: RetryThrottle | None = None  # of retries and hedges, if a service config has it
        self.first_wait = setup.first_wait
        self.lifecycle = ChannelLifecycle(target, setup.canonical_target)
        self.data_plane = LiveDataPlane(self.lifecycle)
        self.calls = CallRegistry()
        self.sessions = SessionRegistry(observers, self.lifecycle, self.data_plane, self.now)
        self.client = setup.client  # for the admin surface
        self.observers = observers
        self.ignored_tls = IgnoredTls(target, credentials)
        self.created_at = self.now()

    def close(self, crash: BaseException | None = None) -> None:
        """End every call, in whatever nursery it runs. Synchronous and idempotent."""
        # A fork is closed already (`mark_forked`), and the calls in it are the parent's.
        if not self.lifecycle.closed:
            # First, because the tasks and calls that this ends take their error from there.
            self.lifecycle.close(crash)
            self.data_plane.wake_waiters()
            self.calls.cancel_all()
