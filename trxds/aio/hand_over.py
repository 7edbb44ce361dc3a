"""This file lets an asyncio task await a function in Trio's thread, or stay in an `async with` block there.

It is the only file that knows asyncio, and it uses the public methods of event loops alone, so any loop will do.

A function goes to Trio with all others that its loop hands over in the same iteration, and a result comes back with
those of the same turn of Trio. Each side wakes the other when it is about to wait itself, because until then the two
threads would contend for the interpreter.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar, cast

from trxds.portal import hand_over
from trxds.portal.hand_over import HeldBlock, Outcome
from trxds.portal.receive_buffer import ReceiveBuffer
from trxds.portal.result import Result
from trxds.portal.trio_thread import TrioThread

T = TypeVar("T")
_log = logging.getLogger("trxds.aio")


class TaskResult(Result[T]):
    """The result of a function in Trio, for one task of an event loop.

    A task that stops waiting loses nothing: another `wait` returns the same result.
    """

    __slots__ = ("_bridge", "_is_there", "_waiter")

    def __init__(self, bridge: LoopBridge) -> None:
        super().__init__()
        self._bridge = bridge
        self._is_there = False
        self._waiter: asyncio.Future[None] = bridge.loop.create_future()

    async def wait(self) -> T:
        """Wait for the result, and return it or raise it."""
        if not self._is_there:
            if self._waiter.done():  # a task that waited was cancelled
                self._waiter = self._bridge.loop.create_future()
            await self._waiter
        return self.take()

    def cancel(self) -> None:
        """Cancel the function in Trio, if its result has not come."""
        if not self._is_there:
            super().cancel()

    def fail(self, error: BaseException) -> None:
        """Raise the error from `wait`, because the function did not begin."""
        self._error = error
        self.deliver()

    def deliver(self) -> None:
        """Wake the task that waits, if any."""
        self._is_there = True
        if not self._waiter.done():
            self._waiter.set_result(None)

    def post(self) -> None:
        """Send the result to the loop. In Trio's thread."""
        self._bridge.post(self)


class Failing(Outcome, Protocol):
    """The outcome of a function that a `LoopBridge` sends."""

    def fail(self, error: BaseException) -> None:
        """Note that the function did not begin. In the loop's thread."""


class LoopBridge:
    """What goes between one event loop and Trio's thread, in both directions and in order."""

    def __init__(self, trio: hand_over.HandOver, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._trio = trio
        self._outgoing: deque[tuple[Callable[..., object], Failing | None]] = deque()
        self._is_sending = False
        self._incoming: deque[TaskResult[Any]] = deque()
        self._is_waking = False

    # -- in the loop's thread

    def send(self, function: Callable[[], object], result: Failing | None = None) -> None:
        """Call a function that does not raise in Trio's thread; `result` gets the error if Trio has ended."""
        self._outgoing.append((function, result))
        if not self._is_sending:
            self._is_sending = True
            self.loop.call_soon(self._send_all)

    def _send_all(self) -> None:
        self._is_sending = False
        try:
            self._trio.call_soon(self._begin_all)
        except Exception as error:
            # Trio's thread may still take out some of them, also between the look and the next line.
            with suppress(IndexError):
                while self._outgoing:
                    _, result = self._outgoing.popleft()
                    if result is not None:
                        result.fail(error)

    def _deliver_all(self) -> None:
        self._is_waking = False
        while self._incoming:
            self._incoming.popleft().deliver()

    # -- in Trio's thread

    def _begin_all(self) -> None:
        while self._outgoing:
            try:
                function, _ = self._outgoing.popleft()
            except IndexError:  # `_send_all` has taken it since the look, because the channel has closed
                break
            try:
                function()
            except Exception:
                # It may be the program's, of an interceptor's call for example, and Trio would end with it.
                _log.exception("a function that asyncio handed over failed")

    def post(self, result: TaskResult[Any]) -> None:
        """Deliver a result in the loop's thread."""
        self._incoming.append(result)
        if not self._is_waking:
            self._is_waking = True
            self._trio.call_before_io_wait(self._wake)

    def _wake(self) -> None:
        try:
            self.loop.call_soon_threadsafe(self._deliver_all)
        except RuntimeError:
            self._incoming.clear()  # the loop is closed, and nobody waits


class HandOver:
    """A `HandOver` runs functions of asyncio tasks in Trio; `trio` is its part in that thread.

    Tasks of any number of event loops may use it. When nothing refers to it any more, its thread ends.
    """

    def __init__(self, trio: hand_over.HandOver) -> None:
        self.trio = trio
        self._bridges: dict[asyncio.AbstractEventLoop, LoopBridge] = {}
        weakref.finalize(self, trio.thread.ask_to_stop).atexit = False

    async def wait(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run `function` in Trio, in this task's context, and return its result; cancelling the task cancels it."""
        result = self.begin(function)
        try:
            return await result.wait()
        except BaseException:
            result.cancel()
            raise

    async def wait_while_open(self, function: Callable[[], Awaitable[T]]) -> T | None:
        """Run `function` as `wait` does; return None once the channel is closed, also if it closes meanwhile."""
        try:
            return await self.wait(function)
        except Exception:
            if not self.trio.closed:
                raise
            return None

    def begin(self, function: Callable[[], Awaitable[T]]) -> TaskResult[T]:
        """Begin to run `function` in Trio, in this task's context, and return its future result."""
        bridge = self._bridge()
        result: TaskResult[T] = TaskResult(bridge)
        bridge.send(partial(copy_context().run, self.trio.begin, result, function), result)
        return result

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a synchronous function in Trio's thread, before anything that is handed over later begins."""
        self._bridge().send(function)

    def start(self, outcome: Failing, function: Callable[[], Awaitable[Any]]) -> None:
        """Run `function` in Trio, in this task's context, and let `outcome` know of its end."""
        self._bridge().send(partial(copy_context().run, self.trio.begin, outcome, function), outcome)

    async def wait_for(self, received: ReceiveBuffer[Any]) -> None:
        """Wait until there is something in the buffer, or Trio's thread hands over no more."""
        result: TaskResult[None] = TaskResult(self._bridge())
        if received.must_wait(result):
            try:
                await result.wait()
            except BaseException:
                received.stop_waiting(result)
                raise

    def start_task(self, function: Callable[[], Awaitable[None]]) -> None:
        """Start a task in Trio for a function that raises nothing but `trio.Cancelled`, in this task's context."""
        self._bridge().send(partial(copy_context().run, self.trio.begin_task, function))

    def check_can_wait(self) -> None:
        """Raise if a wait for Trio's thread would never end, or no event loop runs here."""
        self._bridge()

    def future(self) -> TaskResult[Any]:
        """Return a result that Trio's thread will set."""
        return TaskResult(self._bridge())

    def _bridge(self) -> LoopBridge:
        loop = _running_loop(self.trio.channel.target)
        bridge = self._bridges.get(loop)
        if bridge is None:
            self.trio.check_can_wait()  # in a fork the loop is another
            for each in list(self._bridges):  # a copy: another loop's thread may add its own
                if each.is_closed():
                    self._bridges.pop(each, None)
            bridge = self._bridges[loop] = LoopBridge(self.trio, loop)
        return bridge


def _running_loop(target: str | None) -> asyncio.AbstractEventLoop:
    """Return the event loop; the error names the channel's target, which is None before the channel is open."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        what = f"the channel to {target} is one of trxds.aio" if target else "trxds.aio opens channels for asyncio"
        remedy = "in Trio use trxds.open_channel, in other threads trxds.sync.open_channel"
        raise RuntimeError(f"{what}, and no asyncio runs here; {remedy}") from None


class NextValue(Generic[T]):
    """The next value of an iterator in Trio. A task that stops waiting loses none: the next `take` returns it."""

    def __init__(self, hand_over: HandOver, function: Callable[[], Awaitable[T]]) -> None:
        self._hand_over = hand_over
        self._function = function
        self._left: TaskResult[T] | None = None

    async def take(self) -> T:
        """Wait for the next value and return it."""
        result, self._left = self._left or self._hand_over.begin(self._function), None
        try:
            return await result.wait()
        except asyncio.CancelledError:
            self._left = result
            raise

    def cancel(self) -> None:
        """Cancel the function that a task has left, because nobody will take its value. From any thread."""
        if self._left is not None and not self._hand_over.trio.thread.is_forked:
            self._left.cancel()


class Steps(AsyncIterator[T], Generic[T]):
    """An iterator whose steps are taken in Trio. With `watch` it ends with its channel.

    It is no async generator, which a cancelled step would end, and which tasks could not share.
    """

    def __init__(self, hand_over: HandOver, step: Callable[[], Awaitable[T | None]], *, watch: bool = True) -> None:
        self._hand_over = hand_over
        self._next = NextValue(hand_over, step)
        self._watch = watch
        # A step that was cancelled goes on in Trio for the next one, and nobody else would end it there.
        weakref.finalize(self, self._next.cancel).atexit = False

    async def __anext__(self) -> T:
        try:
            value = await self._next.take()
        except Exception:
            if not (self._watch and self._hand_over.trio.closed):
                raise
            value = None
        if value is None:
            raise StopAsyncIteration
        return value


class ContextBridge(AbstractAsyncContextManager[T], Generic[T]):
    """A `ContextBridge` enters an `async with` block for an asyncio task. A Trio task holds it: Trio's rule."""

    def __init__(self, hand_over: HandOver, block: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._hand_over = hand_over
        self._block = block

    async def __aenter__(self) -> T:
        self._ended = self._hand_over.future()
        self._held = HeldBlock(self._block, self._ended)
        try:
            return cast(T, await self._hand_over.wait(partial(self._hand_over.trio.nursery.start, self._held.hold)))
        except BaseException:
            # The block may have been entered, and this task will not leave it.
            self._hand_over.trio.run_sync_soon(self._held.cancel)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if self._hand_over.trio.thread.is_unreachable:
            return False
        self._held.throw(error)
        is_cancelled = isinstance(error, asyncio.CancelledError)
        self._hand_over.call_soon(self._held.cancel if is_cancelled else self._held.leave)
        await finish(self._ended.wait, self._cancel)
        return self._held.swallows(error, traceback)

    def _cancel(self) -> None:
        self._hand_over.call_soon(self._held.cancel)


async def let_others_run() -> None:
    """Let the other tasks of the event loop run."""
    await asyncio.sleep(0)


async def receive_while_sending(
    receive: Callable[[], Coroutine[Any, Any, T]], send: Callable[[], Coroutine[Any, Any, None]]
) -> T:
    """Return what `receive` returns, and cancel `send` then, whatever it waits for; raise what `send` raises."""
    tasks = received, sent = asyncio.ensure_future(receive()), asyncio.ensure_future(send())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not received.done() and sent.exception() is None:
            await asyncio.wait([received])
    finally:
        for task in tasks:
            task.cancel()
        await finish(partial(asyncio.gather, *tasks, return_exceptions=True), lambda: None)
    try:
        if not sent.cancelled():
            sent.result()  # also what the requests raise as they are left
        return received.result()
    finally:
        del tasks, received, sent, task  # their exceptions have this frame: without `del` they would be a cycle


async def finish(wait: Callable[[], Awaitable[T]], on_cancel: Callable[[], object]) -> T:
    """Wait, also if this task is cancelled meanwhile; then call `on_cancel`, and raise the cancellation at the end."""
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            value = await wait()
        except asyncio.CancelledError as error:
            cancelled = error
            on_cancel()
        except BaseException:
            if cancelled is not None:
                raise cancelled from None
            raise
        else:
            break
    if cancelled is not None:
        raise cancelled
    return value


async def start(thread: TrioThread[hand_over.HandOver]) -> HandOver:
    """Start Trio's thread, without stopping the event loop."""
    starting = _in_thread(thread.start)
    try:
        # A start cannot be cancelled; it takes milliseconds, because it waits for nobody.
        return HandOver(await finish(partial(asyncio.shield, starting), lambda: None))
    except asyncio.CancelledError:
        if starting.exception() is None:
            await stop(thread)
        raise


async def stop(thread: TrioThread[hand_over.HandOver]) -> None:
    """Stop Trio's thread, and wait for its end without stopping the event loop."""
    await finish(partial(asyncio.shield, _in_thread(thread.stop)), lambda: None)


def _in_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    """Call a function in a thread of its own, because those of the loop's executor may all be busy."""
    loop = _running_loop(None)
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            settle = partial(future.set_result, function())
        except BaseException as error:
            settle = partial(future.set_exception, error)
        with suppress(RuntimeError):  # the loop may be closed
            loop.call_soon_threadsafe(settle)

    threading.Thread(target=run, name="trxds-aio", daemon=True).start()
    return future
