"""A session moves from its host to another one, with a block in between to hand state over.

The new host is picked without a call: route, filters and pick as for a new session, and the session filter writes the
cookie that the first response would bring.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial

import trio

from trxds.core.metadata import EMPTY, Metadata
from trxds.core.status import RpcError, Status, StatusCode, rewrite_illegal_status, unavailable
from trxds.lb.pick import Complete, Drop, Fail, PickArgs, Queue
from trxds.session_affinity.session import Pin, SessionCookies
from trxds.session_affinity.session_hosts import CookieKey, SessionHost

from .attempt import no_pick_result, picker_exception
from .call_registry import RegisteredCall
from .call_routing import CallRoute, find_route
from .call_scope import CallScope
from .channel_state import ChannelState
from .open_session import OpenSession


class BoundSession(OpenSession):
    """The lifecycle of calls that are bound to one host of a session; they are part of the session, and end with it."""

    __slots__ = ("_is_done", "_session", "host")

    def __init__(self, cookies: SessionCookies, session: OpenSession, host: SessionHost) -> None:
        super().__init__(cookies, session.channel, session.unsticky, session.now)
        self.host = host
        self._session = session
        self._is_done = False

    @property
    def closed(self) -> bool:
        """Whether the session has ended."""
        return self._session.closed

    def end(self) -> None:
        """Let no call begin any more; those that are open go on, as part of the session."""
        self._is_done = True

    def begin_call(self, call: RegisteredCall) -> None:
        """Count and register a call of the session. Raises `trio.ClosedResourceError` after the block of the move."""
        if self._is_done:
            raise trio.ClosedResourceError("the block of moving() is over; make calls with the session itself")
        self._session.begin_call(call)

    def end_call(self, call: RegisteredCall) -> None:
        """Forget a call that has ended."""
        self._session.end_call(call)

    def check_sticky(self, call: PickArgs) -> Status | None:
        """Bind the call to the host: it fails if the host cannot be used."""
        override = call.override
        if override is None:
            return Status(StatusCode.UNAVAILABLE, f"{call.path}: the configuration has no session filter any more")
        override.strict = True
        # The cookie's time may be over by now, and the caller may send a cookie of its own.
        if self.host.host not in override.addresses:
            override.addresses = (self.host.host,)
        return None


@asynccontextmanager
async def move_session(
    state: ChannelState, session: OpenSession, key: CookieKey
) -> AsyncIterator[tuple[BoundSession, BoundSession]]:
    """Move a session away from the host that the cookie `key` names.

    Pick the new host, run the block with both, and switch the session unless the block raises.
    """
    cookies = session.cookies
    pin = cookies.pins.get(key)
    if pin is None or not pin.path:
        raise ValueError("the session has not used the cookie since it was imported; make a call with it first")
    with cookies.only_move():
        while True:
            keys = cookies.keys_like(key)
            # `before` stays as it is: `switch` takes over only the differences of the other two from it.
            source, before = cookies.copy(), cookies.copy(without=keys)
            target = before.copy()
            await _pick(state, session, pin, keys, target)
            present = cookies.pins.get(key, pin)
            if present.host == pin.host:
                break
            pin = present  # meanwhile a call has moved the session by itself
        host = next((new.host for name, new in target.pins.items() if before.pins.get(name) is not new), None)
        if host is None:
            raise _cannot_move(pin, "the session filter takes no part in the call any more")
        old, new = BoundSession(source, session, pin.host), BoundSession(target, session, host)
        try:
            yield old, new
        finally:
            old.end()
            new.end()
        if not session.closed:
            cookies.switch(keys, before, source, target)


async def _pick(
    state: ChannelState, session: OpenSession, pin: Pin, keys: Collection[CookieKey], target: SessionCookies
) -> None:
    """Pick another host as for a new session, and store its cookie in `target`."""
    scope = CallScope(session, pin.path, state.now(), None, state.first_wait)
    # As a call it keeps the channel from being IDLE, and ends with the session.
    session.register(scope)
    state.calls.open[scope] = None
    try:
        await trio.lowlevel.checkpoint()
        if state.data_plane.current is None:
            await scope.run_with_deadline(partial(state.data_plane.wait_for_change, None))
        # The caller's own headers choose the route, as they did when the session got its host.
        old = {"cookie", *(key.name for key in keys)}
        own = Metadata([pair for pair in pin.metadata if pair[0] not in old])
        route = await find_route(state, scope, target.metadata.fill(own, pin.path), False)
        if isinstance(route, Status):
            raise RpcError(route)
        try:
            await _wait_for_host(state, route, scope, pin)
            override = route.args.override
            if override is not None and not override.actual_address_list:
                # An update is on its way down the tree, and has not reached the policy that gave the host.
                raise _cannot_move(pin, "the host that was picked has just left its cluster; move again")
            if route.filters is not None:
                # No response has come, so a `FilterCall` must see no headers.
                route.filters.end_headers()
            target.record_response(route.respond(EMPTY), route.args, target.view)
        finally:
            route.release()
            if route.filters is not None:
                route.filters.close(None)
    finally:
        state.calls.open.pop(scope, None)
        session.end_call(scope)


async def _wait_for_host(state: ChannelState, route: CallRoute, scope: CallScope, pin: Pin) -> None:
    live, args = state.data_plane, route.args
    if args.override is None:
        return
    args.override.avoid = pin.host.host
    while True:
        # Sessions learn that their host is DRAINING before the tree does, and its picker would give others that are.
        await scope.run_with_deadline(live.wait_settled)
        plane = live.current
        if plane is not None:
            args.now = state.now()
            try:
                result: object = plane.picker.pick(args)
            except Exception:
                result = picker_exception(args)
            match result:
                # The pick has noted its host in the override, from which the session filter makes the cookie (A55).
                case Complete():
                    return
                case Fail(status) | Drop(status):
                    raise RpcError(rewrite_illegal_status(status, "the load balancing policy"))
                case Queue():
                    pass
                case nonsense:
                    raise RpcError(no_pick_result(nonsense, args))
        await scope.run_with_deadline(partial(live.wait_for_change, plane))


def _cannot_move(pin: Pin, why: str) -> RpcError:
    return RpcError(unavailable(f"{pin.path}: the session cannot move: {why}"))
