"""A channel, as a program has it: its calls, sessions, state and hosts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Literal

import trio

from trxds.core.connectivity import Connectivity
from trxds.core.metadata import Pairs
from trxds.core.observe import Observer
from trxds.resolver.route_explanation import Explanation
from trxds.session_affinity.session_token import Key, SessionTokenError
from trxds.transport.pool import SubchannelPool

from .admin_view import AdminView
from .background_services import run_with_services
from .call_explanation import explain_call
from .channel_state import ChannelState
from .hosts import HostIterator
from .interceptors import Interceptor
from .open_session import FIRST_WITHIN
from .session import Session, SessionPool
from .session_pool import SessionTable, checked_pool_options, run_table
from .session_rebalancing import TOLERANCE, Rebalancer
from .stub import CallerMethodFactory


class Channel(CallerMethodFactory):
    """A channel makes calls to one target. `open_channel` opens it; any task can use it while that block lasts."""

    def __init__(self, state: ChannelState, pool: SubchannelPool, interceptors: Sequence[Interceptor] = ()) -> None:
        super().__init__(state, interceptors)
        self._pool = pool

    @property
    def target(self) -> str:
        """Return the target that the channel was opened with."""
        return self._state.lifecycle.target

    # -- its state

    @property
    def state(self) -> Connectivity | None:
        """Return the channel's connectivity state, as a call would find it; None once it is closed.

        IDLE: the idle timeout has passed without a call, or pick_first has lost its host, and the next call connects.
        CONNECTING: calls wait. READY: they are sent. TRANSIENT_FAILURE: they fail, unless they wait for ready
        (connectivity-semantics-and-api.md).
        """
        self._state.lifecycle.check_process()
        return self._state.data_plane.connectivity

    async def wait_for_state_change(self, last: Connectivity | None) -> Connectivity | None:
        """Wait until the state is not `last`, and return it; states in between may be missed. Always a checkpoint."""
        self._state.lifecycle.check_run()
        return await self._state.data_plane.wait_for_state_change(last)

    def states(self) -> StateIterator:
        """Return an async iterator of the present state and each later one, until the channel closes.

        A slow reader skips states. Each step is always a checkpoint.
        """
        return StateIterator(self._state)

    def hosts(self, *, watch: bool = False) -> HostIterator:
        """Return an async iterator of the present hosts, for `Method.on`: all that the channel's policies know.

        It waits for a configuration as a call does, and connects nothing itself. With `watch` it goes on with hosts
        that are new, have changed or have left (`Host.has_left`), until the channel closes; a change of a connection's
        state alone is no news. Each step is always a checkpoint; without `watch` the first one raises `RpcError` if the
        configuration is in error.
        """
        return HostIterator(self._state, watch)

    def try_to_connect(self) -> None:
        """Make the channel connect without a call, if it is IDLE. Synchronous."""
        self._state.lifecycle.check_open()
        self._state.data_plane.exit_idle()
        # The tree may be running and a policy in it IDLE, such as pick_first after a lost connection (A62).
        if self._state.data_plane.tree is not None:
            self._state.data_plane.tree.exit_idle()

    # -- its calls

    @asynccontextmanager
    async def session(
        self,
        token: str | None = None,
        *,
        key: Key | None = None,
        wait_for_first: bool = True,
        first_within: float = FIRST_WITHIN,
        require: bool = False,
    ) -> AsyncIterator[Session]:
        """Open a session: one cookie jar, and one host for all calls in the block (A55).

        A session is sticky only if a stateful session filter takes part in its calls: from the control plane, or by
        `affinity` or `statefulSession` for other targets. The log warns of methods for which there is none.

        With the block the session ends: calls that are under way end with CANCELLED, and later ones raise
        `trio.ClosedResourceError`. Entering is always a checkpoint, and leaving is none.

        Args:
            token: A text of `Session.export` continues that session, also one of another process. None begins a new
                one, and so does a token whose time is over.
            key: Bytes, or several keys while you change them; the token must be signed with one of them.
            wait_for_first: Calls that begin while the session has no cookie wait for the response headers of its first
                call; False switches that off. On a new channel the first call itself waits for the other hosts:
                `spread_within` of `open_channel`.
            first_within: The longest time of that wait, in seconds; `math.inf` is no bound.
            require: Calls without a stateful session filter fail with UNAVAILABLE, and are not retried.

        Raises:
            SessionTokenError: The token cannot be used; the message says why.
            ValueError: `first_within` is no number of seconds from 0.
            trio.ClosedResourceError: The channel is closed.
        """
        self._state.lifecycle.check_open()
        imported = self._state.sessions.read(token, key)
        del token, key  # credentials: no traceback of what follows has them
        if isinstance(imported, SessionTokenError):
            raise imported
        with self._state.sessions.session(wait_for_first, first_within, required=require, token=imported) as session:
            await trio.lowlevel.checkpoint()
            yield Session(self._state, self._interceptors, session)

    @asynccontextmanager
    async def sessions(
        self,
        *,
        max: int,
        idle: float | None = None,
        when_full: Literal["wait", "fail"] = "wait",
        wait_for_first: bool = True,
        first_within: float = FIRST_WITHIN,
        require: bool = False,
    ) -> AsyncIterator[SessionPool]:
        """Open a pool of sessions, one for each user, for as long as the block lasts (`SessionPool.session`).

        With the block all its sessions end: calls that are under way end with CANCELLED. Entering is no checkpoint, and
        leaving is always one.

        Args:
            max: The largest number of sessions. Beyond that the least recently used one ends, but never one that is in
                use.
            idle: A session that has not been used for so many seconds ends; with None, never.
            when_full: If all `max` sessions are in use, another user waits ("wait"), or gets `RpcError` with
                RESOURCE_EXHAUSTED ("fail").
            wait_for_first: As in `session`.
            first_within: As in `session`, in seconds.
            require: As in `session`.

        Raises:
            ValueError: `max` is below 1, `idle` or `first_within` is no number of seconds, or `when_full` is neither
                "wait" nor "fail".
            trio.ClosedResourceError: The channel is closed.
        """
        self._state.lifecycle.check_open()
        options = checked_pool_options(max, idle, when_full, wait_for_first, first_within, require)
        async with run_table(SessionTable(self._state.sessions, options)) as table:
            yield SessionPool(self._state, self._interceptors, table)

    @asynccontextmanager
    async def rebalance_sessions(
        self, *, per_second: float, idle_for: float, tolerance: float = TOLERANCE
    ) -> AsyncIterator[None]:
        """Release idle sessions of hosts that have more than their fair share, for as long as the block lasts.

        After a rollout sessions pile up on the oldest hosts. The next call of a released session chooses a host anew,
        so the state that its host had is lost. Sessions in strict mode are never released. Entering is no checkpoint,
        and leaving is always one.

        Args:
            per_second: Release at most so many sessions in a second.
            idle_for: Release only sessions that made no call for so many seconds.
            tolerance: A host may have so much more than its fair share, rounded up; 0.1 is 10 %.

        Raises:
            ValueError: A number is out of range.
            trio.ClosedResourceError: The channel is closed.
        """
        self._state.lifecycle.check_open()
        rebalancer = Rebalancer(self._state.sessions, per_second, idle_for, tolerance)
        what = f"the rebalancing of sessions of {self.target}"
        async with run_with_services(what, {"sessions/rebalancing": rebalancer.run}):
            yield

    async def explain(self, method: str, metadata: Pairs = (), timeout: float | None = None) -> Explanation:
        """Explain where a call of `method` would go now: route, cluster, time limit, filters, policies, host.

        It waits for a configuration as a call does; it sends nothing and connects nothing. Always a checkpoint.

        Args:
            method: The path, `/package.Service/Method`.
            metadata: Pairs of key and value, as of a call. Of a session only the cookies that stand here are seen;
                `Session.explain` sees all.
            timeout: How long it waits for a configuration, in seconds; None is without a limit.

        Raises:
            RpcError: There is no configuration in time (the message says what is missing), or the channel closes.
            ValueError: The method has another form.
        """
        return await explain_call(self._state, method, metadata, timeout)

    def admin_view(self) -> AdminView:
        """Return the admin surface's view of the channel; not for programs, because it changes between releases."""
        return AdminView(self._state, self._pool)

    def closed_error(self) -> Exception:
        """Return the exception of a call that was open when the channel closed."""
        return self._state.lifecycle.closed_error()

    def observed_by(self, observer: Observer) -> AbstractContextManager[None]:
        """Notify `observer` (a `trxds.Observer`) of the channel's events while the block lasts."""
        return self._state.observers.observed_by(observer)

    def __repr__(self) -> str:
        condition = "closed" if self._state.lifecycle.closed else "open"
        return f"<Channel {self.target} {condition}, {len(self._state.calls.open)} calls>"


class StateIterator:
    """The iterator of `Channel.states`. It is no async generator, so an abandoned one needs no cleanup."""

    def __init__(self, channel: ChannelState) -> None:
        self._channel = channel
        self._last: Connectivity | None = None

    def __aiter__(self) -> StateIterator:
        return self

    async def __anext__(self) -> Connectivity:
        self._channel.lifecycle.check_run()
        self._last = await self._channel.data_plane.wait_for_state_change(self._last)
        if self._last is None:
            raise StopAsyncIteration
        return self._last
