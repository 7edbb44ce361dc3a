"""Where a call goes: a route of the configuration in force, its filters, and a hold on the cluster that they leave.

    choose a route -> filters -> hold the cluster

The cluster's name is final after the filters, for a cookie may name another one of the route (A60).
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from functools import partial

from trxds.core.lifetime import Lifetime
from trxds.core.metadata import Metadata
from trxds.core.status import Status, StatusCode
from trxds.lb.pick import PickArgs
from trxds.resolver.config_selector import Selection
from trxds.resolver.method_config import MethodConfig

from .call_scope import CallScope
from .channel_state import ChannelState
from .dataplane import LiveDataPlane
from .filter_protocol import Filter, Respond, Wait

_log = logging.getLogger("trxds.client")


@dataclass(slots=True, eq=False, repr=False)
class CallRoute:
    """What routes and filters have decided for one call. `release` must be called at its commit or its end."""

    args: PickArgs
    config: MethodConfig
    responders: tuple[Respond, ...]
    hold: Lifetime | None  # on the cluster

    def respond(self, metadata: Metadata) -> Metadata:
        """Return the response's metadata as the filters leave it; with it the call is committed."""
        for respond in self.responders:
            try:
                metadata = respond(metadata)
            except Exception:
                _log.exception("a filter raised on the response of %s; its headers stay as they are", self.args.path)
        # Filters first: the cluster's name, which the cookie has, is certain until it is let go.
        if self.hold is not None:
            hold, self.hold = self.hold, None
            hold.release()
        return metadata

    def release(self) -> None:
        """Let the cluster go: an attempt that is committed needs its stream only (A31, A60). Idempotent."""
        if self.hold is not None:
            hold, self.hold = self.hold, None
            hold.release()


class NextConfiguration:
    """What a call waits for that waits for ready while there are no routes.

    `str` says what is wrong when it is asked, not when the wait began.
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
    """Return the call's route, or why it has none; waits for filters, and perhaps for the next configuration."""
    live, path = channel.data_plane, scope.path
    plane = live.current
    assert plane is not None
    while not isinstance(selection := plane.selector.choose(path, metadata), Selection):
        if not (selection.retryable and wait_for_ready):
            return selection.status
        scope.waiting_for = NextConfiguration(live)
        plane = await scope.run_with_deadline(partial(live.wait_for_change, plane))
    route = selection.route
    # A31: it counts from the call's start, so what has been waited for is over, and filters wait within it.
    if route.limit < math.inf:
        scope.shorten(route.limit)
    table = selection.table
    args = PickArgs(path, metadata, route, selection.cluster.name, hash=selection.hash)
    if not selection.cluster.chain:
        return CallRoute(args, route.config, (), table.keep_cluster(args.cluster))
    responders: tuple[Respond, ...] = ()
    held: Lifetime | None = None
    try:
        for each in selection.cluster.chain:
            try:
                answer = each.start(args)
            except Exception:
                answer = _raised(each, path)
            if isinstance(answer, Wait):
                # A60: a filter that waits may still choose any cluster of the route, so all of them live on. Where none
                # waits, nothing can come between the choice of a cluster and the hold on it.
                if held is None:
                    held = table.lifetime
                    held.acquire()
                scope.waiting_for = f"the filter {type(each).__name__}"
                answer = await scope.run_with_deadline(answer.step)
            if isinstance(answer, Status):
                return route.annotate_filter_status(answer)
            if answer is not None:
                responders += (answer,)
        scope.check_open()
        return CallRoute(args, route.config, responders, table.keep_cluster(args.cluster))
    finally:
        if held is not None:
            held.release()


def _raised(one: Filter, path: str) -> Status:
    _log.exception("filter %r raised; the RPC to %s fails", one, path)
    return Status(StatusCode.INTERNAL, f"the filter {type(one).__name__} raised an exception, see the log")
