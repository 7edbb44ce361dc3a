"""This file routes a call: it chooses a route, runs its filters, and holds the cluster (A31, A39, A60).

    choose a route -> filters -> hold the cluster

The cluster's name is final only after the filters, because a cookie may name another cluster of the route (A60).
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import Final

from msgspec import Struct

from trxds.core.lifetime import Lifetime
from trxds.core.metadata import Metadata
from trxds.core.status import RpcError, Status, StatusCode
from trxds.lb.pick import PickArgs
from trxds.resolver.config_selector import Selection
from trxds.resolver.method_config import NO_METHOD_CONFIG, MethodConfig
from trxds.transport.compression import compress

from .call_filters import CallFilters, FollowedCall, as_metadata
from .call_scope import CallScope
from .call_settings import CallSettings
from .channel_state import ChannelState
from .dataplane import LiveDataPlane
from .filter_protocol import Filter, FilterCall, Respond, Wait

_log = logging.getLogger("trxds.client")

_DECISIONS: Final = (Wait, Status, FilterCall)


class CallRoute(Struct, eq=False):
    """A `CallRoute` is the decision of routes and filters for one call; `release` must follow its commit or end."""

    args: PickArgs
    config: MethodConfig
    responders: tuple[Respond, ...]
    hold: Lifetime | None  # on the cluster
    filters: CallFilters | None = None  # those that follow the call to its end

    def __repr__(self) -> str:
        return f"<CallRoute {self.args.path} to {self.args.cluster}>"

    def outgoing(self, message: bytes, settings: CallSettings, *, compressed: bool = True) -> bytes | Status:
        """Return the bytes to send; a status if a filter fails, or the message is longer than `max_send_size`."""
        if self.filters is not None:
            filtered = self.filters.send(message)
            if isinstance(filtered, Status):
                return filtered
            message = filtered
        if len(message) > settings.max_send_size:
            limit = f"the limit of {settings.max_send_size}; raise max_send_size, or the service config's"
            text = f"{self.args.path}: message of {len(message)} bytes is larger than {limit}"
            return Status(StatusCode.RESOURCE_EXHAUSTED, text)
        return compress(message, settings.encoding) if settings.encoding and compressed else message

    def only_compresses(self, size: int, settings: CallSettings) -> bool:
        """Return whether `outgoing` takes any message of `size` bytes, and does no more than to compress it."""
        return self.filters is None and size <= settings.max_send_size

    def respond(self, metadata: Metadata) -> Metadata:
        """Return the response's metadata as the filters leave it; with it the call is committed."""
        for respond in self.responders:
            try:
                answer = respond(metadata)
                # Checked here, because a task of the connection reads it next, and an error there ends the channel.
                metadata = answer if isinstance(answer, Metadata) else as_metadata(answer)
            except Exception:
                text = "the filter function %s raised on the response of %s, or returned no metadata; it stays as it is"
                _log.exception(text, _responder_label(respond), self.args.path)
        # The filters run before the release: they write the cluster's name into the cookie (A60).
        if self.hold is not None:
            hold, self.hold = self.hold, None
            hold.release()
        return metadata

    def release(self) -> None:
        """Release the cluster: a committed attempt needs its stream only (A31, A60). Idempotent."""
        if self.hold is not None:
            hold, self.hold = self.hold, None
            hold.release()


NO_ROUTE = CallRoute(PickArgs(""), NO_METHOD_CONFIG, (), None)
"""In the place of the route of a call that has none yet, so that a call need not test for it."""


class NextConfiguration:
    """`NextConfiguration` describes the wait of a call that waits for ready while there are no routes.

    `str` names the problem of that moment, not of the moment when the wait began.
    """

    __slots__ = ("_data_plane",)

    def __init__(self, data_plane: LiveDataPlane) -> None:
        self._data_plane = data_plane

    def __str__(self) -> str:
        problem = self._data_plane.problem
        return "a configuration" + (f"; the present one is in error: {problem.message}" if problem is not None else "")


async def find_route(
    channel: ChannelState, scope: CallScope, metadata: Metadata, wait_for_ready: bool | None
) -> CallRoute | Status:
    """Return the call's route, or the status of one without; wait for filters, and perhaps a new configuration."""
    live = channel.data_plane
    path = scope.path
    plane = live.current
    assert plane is not None
    while not isinstance(selection := plane.selector.choose(path, metadata), Selection):
        if not (selection.retryable and wait_for_ready):
            return selection.status
        scope.waiting_for = NextConfiguration(live)
        plane = await scope.run_with_deadline(partial(live.wait_for_change, plane))
    route = selection.route
    # A31: the limit counts from the call's start, so it includes the waiting so far and that of the filters.
    if route.limit < math.inf:
        scope.shorten(route.limit)
    table = selection.table
    args = PickArgs(path, metadata, route, selection.cluster.name, hash=selection.hash)
    if not selection.cluster.filters:
        return CallRoute(args, route.config, (), table.lifetimes[args.cluster].acquire())
    responders: tuple[Respond, ...] = ()
    following: CallFilters | None = None
    held: Lifetime | None = None
    try:
        for each in selection.cluster.filters:
            try:
                answer = each.start(args)
            except Exception:
                answer = _filter_exception(each, path)
            # One test for what most filters return: nothing, or a function.
            if isinstance(answer, _DECISIONS):
                if isinstance(answer, Wait):
                    # A60: a filter that waits may still choose any cluster of the route, so the whole route table is
                    # held. Without such a wait no update can come between the choice of a cluster and the hold on it.
                    if held is None:
                        held = table.lifetime.acquire()
                    scope.waiting_for = f"the filter {filter_label(each)}"
                    answer = await scope.run_with_deadline(answer.step)
                if isinstance(answer, Status):
                    if following is not None:
                        following.close(answer)
                    return route.annotate_filter_status(answer)
                if isinstance(answer, FilterCall):
                    if following is None:
                        following = CallFilters(path)
                    answer = following.add(answer, filter_label(each))
            if answer is not None:
                # In the opposite order on the way back: the first filter is the outermost.
                responders = (answer, *responders)
        # A filter's wait may be over in the step in which the channel closes, and then nothing has cancelled it.
        if held is not None:
            scope.check_open()
        return CallRoute(args, route.config, responders, table.lifetimes[args.cluster].acquire(), following)
    # Also for `Cancelled`: a call that gets no `CallRoute` does not close these filters at its end.
    except BaseException as error:
        if following is not None:
            following.close(error.status if isinstance(error, RpcError) else None)
        raise
    finally:
        if held is not None:
            held.release()


def filter_label(http_filter: Filter) -> str:
    """Return the name of a filter for messages."""
    return str(getattr(http_filter, "label", type(http_filter).__name__))


def _responder_label(respond: Respond) -> str:
    owner = getattr(respond, "__self__", None)
    # Not its `repr`: a `partial` shows its arguments.
    return owner.label if isinstance(owner, FollowedCall) else getattr(respond, "__qualname__", type(respond).__name__)


def _filter_exception(http_filter: Filter, path: str) -> Status:
    _log.exception("filter %r raised; the RPC to %s fails", http_filter, path)
    return Status(StatusCode.INTERNAL, f"the filter {filter_label(http_filter)} raised an exception, see the log")
