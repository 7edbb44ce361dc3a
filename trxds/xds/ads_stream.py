"""The I/O of ADS: this keeps one stream after another open to one server (A27, A57).

A stream has three tasks: the writer, the reader and the timers. The reader waits until the watchers have read what the
last response changed, so a control plane that is faster than its client is held up by the stream's flow control and
costs no memory. A slow watcher is waited for only once: when it reads, it finds the newest state.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection
from random import Random
from typing import TypeAlias, TypeVar

import trio

from trxds.core.backoff import Backoff
from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.determinism import step_clock
from trxds.core.observers import Observers
from trxds.core.plural import plural
from trxds.resources.cooperative_parse import Slices
from trxds.resources.types import ParseContext
from trxds.transport.client_stream import ClientStream

from .ads_stream_state import AdsStreamState
from .control_plane_stream import ControlPlaneStream
from .discovery_response import UnknownResponse
from .resource import Changes, Resource
from .watch_registry import WatchRegistry
from .xds_channel import XdsChannel
from .xds_telemetry import XdsTelemetry

log = logging.getLogger("trxds.xds")

WATCHER_TIMEOUT = 1.0  # seconds that the reader waits for a watcher to read an update
SLICE_TIME = 0.005  # seconds that parsing may hold up other tasks
# Bytes of ACKs, some 20,000 of them. A server that first sends a whole mesh and only then reads does not reach it.
MAX_UNSENT = 4 * 1024 * 1024

T = TypeVar("T")
ReviewServers: TypeAlias = Callable[[AdsStreamState, Collection[Resource]], Changes]


class AdsStream:
    """Keep a stream to `server` open while anything is subscribed, for as long as `run` runs."""

    kind = "ads"

    def __init__(
        self,
        state: AdsStreamState,
        watches: WatchRegistry,
        review: ReviewServers,
        xds_channel: XdsChannel,
        random: Random,
        context: ParseContext,
        observers: Observers,
    ) -> None:
        self.server = state.server
        self._state = state
        self._watches = watches
        self._review = review
        self.xds_channel = xds_channel
        self._control_plane_stream = ControlPlaneStream("ADS", state.protocol.path, state.protocol.remedy, xds_channel)
        self._context = context
        self._telemetry = XdsTelemetry(self.server.uri, observers)
        self._backoff = Backoff(random)
        self._writer_wakeup: ConflatingQueue[None] = ConflatingQueue()  # wakes the writer
        self._timer_wakeup: ConflatingQueue[None] = ConflatingQueue()  # wakes the timers
        self._timer_deadline = math.inf
        self._can_send = True  # the stream may still take requests
        self._request_sent = trio.lowlevel.ParkingLot()  # the reader waits there while much is unsent
        self._scope = trio.CancelScope()

    def subscription_changed(self) -> None:
        self._writer_wakeup.put("subscription", None)

    def close(self) -> None:
        """End the stream for good, so that `run` returns: another server has replaced this one."""
        self._state.close()
        self._telemetry.server_dropped()
        self._scope.cancel(reason="another xDS server has taken over")

    async def run(self) -> None:
        with self._scope:
            while True:
                # A type's first request without names would subscribe to all resources.
                while not self._state.has_subscriptions:
                    self._state.become_idle()
                    await self._writer_wakeup.next()
                reason = await self._control_plane_stream.run(self._run_stream)
                self._state.stream_ended(reason, trio.current_time())
                # A57: the end of a stream that got a response is no failure, and is not counted as one (A78).
                if self._state.failure is not None:
                    self._telemetry.stream_failed(reason)
                changes = self._review(self._state, ())
                self._watches.publish(changes)
                # A57 wants backoff only after a stream without a response. The shortest delay after any other one
                # prevents a busy loop with a server that ends each stream right after its response.
                delay = self._backoff.next()
                # One warning for the server and not for each resource, and no second one for the same outage.
                level = logging.WARNING if changes else logging.INFO
                log.log(level, "xDS server %s: %s; trying again in %.1f s", self.server.uri, reason, delay)
                await trio.sleep(delay)

    async def _run_stream(self, stream: ClientStream) -> None:
        self._state.stream_opened()
        self._can_send = True
        self._telemetry.stream_connected()
        async with trio.open_nursery() as nursery:
            # The reader sees the end of the stream, so writer and timers end with it.
            nursery.start_soon(self._write, stream, name=f"ads/{self.server.uri}/write")
            nursery.start_soon(self._run_timers, name=f"ads/{self.server.uri}/clock")
            await self._read(stream)
            nursery.cancel_scope.cancel(reason="the ADS stream ended")

    async def _write(self, stream: ClientStream) -> None:
        while True:
            while (request := self._state.next_request(trio.current_time())) is not None:
                # A delta request has a map, whose order would be another one in each process; a simulation is the same.
                if not await stream.send(request.SerializeToString(deterministic=True)):
                    self._can_send = False
                    self._request_sent.unpark_all()
                    return  # the reader gets the reason
                self._telemetry.request_sent(request)
                self._state.sent(request, trio.current_time())
                self._update_timer()
                self._request_sent.unpark_all()
            self._update_timer()  # a NACK may have to wait
            await self._writer_wakeup.next()

    def _update_timer(self) -> None:
        if self._state.next_deadline != self._timer_deadline:
            self._timer_wakeup.put("said", None)

    async def _run_timers(self) -> None:
        while True:
            self._timer_deadline = self._state.next_deadline
            await self._timer_wakeup.next(self._timer_deadline)
            expired = self._state.expire_timers(trio.current_time())
            notify_watchers(self._watches, self._review(self._state, expired))
            if self._state.has_pending_requests:
                self._writer_wakeup.put("clock", None)

    async def _read(self, stream: ClientStream) -> None:
        while (message := await stream.receive()) is not None:
            touched: dict[Resource, None] = {}
            try:
                await self._drain_messages(stream, message, touched)
            finally:
                # Also if another server takes over meanwhile, which ends this task: what came before that was applied.
                changes = self._review(self._state, touched)
            notify_watchers(self._watches, changes)
            # The ACK does not wait for the watchers: it means that the resources are valid, not that they are in use.
            self._writer_wakeup.put("answer", None)
            await self._wait_until_seen(changes)
            # In delta each response needs an ACK or NACK of its own. So the ACKs for a server that does not read
            # them would pile up without end; while there are many, its responses are not read either.
            while self._can_send and self._has_much_unsent():
                await self._request_sent.park()

    async def _drain_messages(self, stream: ClientStream, message: bytes | None, touched: dict[Resource, None]) -> None:
        """Handle this message and those that came with it, so that watchers and server get one update for all.

        `touched` gets the resources that they change.
        """
        clock = step_clock()
        started = clock()
        while message is not None:
            touched.update(dict.fromkeys(await self._handle_message(message)))
            is_time_left = clock() - started < SLICE_TIME and not self._has_much_unsent()
            message = stream.receive_nowait() if is_time_left else None

    def _has_much_unsent(self) -> bool:
        return self._state.unsent_bytes > MAX_UNSENT

    async def _handle_message(self, message: bytes) -> list[Resource]:
        response = await run_in_slices(self._state.read(message, self._context))
        if isinstance(response, UnknownResponse):
            log.warning("xDS server %s: %s; ignored", self.server.uri, response.reason)
            return []
        # A57: a response ends an outage, even one that is rejected; a connection alone does not.
        self._backoff.reset()
        self._telemetry.response_received(response)
        return self._state.received(response, trio.current_time())

    async def _wait_until_seen(self, changes: Changes) -> None:
        """Wait until the watchers have read these changes, or leave slow ones behind after `WATCHER_TIMEOUT`."""
        with trio.move_on_after(WATCHER_TIMEOUT) as waiting:
            await self._watches.wait_until_seen(changes)
        if waiting.cancelled_caught:
            # One slow watcher must not delay the updates of all others for longer than this.
            late = self._watches.mark_slow(changes)
            text = "%s read nothing for %g s; the others go on without them"
            log.warning(text, plural(late, "watcher"), WATCHER_TIMEOUT)


def notify_watchers(watches: WatchRegistry, changes: Changes) -> None:
    """Publish the changes, and log their errors."""
    for state in changes.values():
        if problem := state.error or state.ambient:
            log.warning("%s", problem.message)
    watches.publish(changes)


async def run_in_slices(work: Slices[T]) -> T:
    """Drive a long computation, and let other tasks run every few milliseconds."""
    clock = step_clock()
    started = clock()
    while True:
        try:
            next(work)
        except StopIteration as done:
            value: T = done.value
            return value
        if clock() - started > SLICE_TIME:
            await trio.lowlevel.checkpoint()
            started = clock()
