"""Random calls: all four kinds, in sessions and outside, with deadlines and cancellation anywhere."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from random import Random

import trio

import trxds
from trxds.core.observe import AttemptObserver, CallObserver, CallStarted, Observer, OutlierEvent, Pick, SessionPick
from trxds.core.status import OK, Status, StatusCode

from . import invariants
from .call_plan import CallPlan
from .model import METHODS
from .pick_invariants import OF_PICKS
from .world import Client, Issued, World

KINDS = ("unary", "unary", "unary", "client stream", "server stream", "bidi")
CURRENT: ContextVar[CallPlan | None] = ContextVar("simulated_call", default=None)


# -- what the client says of its calls


class CountedAttempt(AttemptObserver):
    """An attempt of any call, also of one without a plan: a move's. All count in load reports."""

    __slots__ = ("_client", "_last", "_world")

    def __init__(self, world: World, client: Client) -> None:
        self._world = world
        self._client = client
        self._last: Issued | None = None

    def picked(self, pick: Pick) -> None:
        self._last = Issued(trio.current_time())
        self._world.issued[self._client.network_name, pick.backend].append(self._last)

    def ended(self, status: Status) -> None:
        # A call that is cancelled in the step of its pick may not have got a stream, and then it has no load.
        if self._last is not None and status.code is StatusCode.CANCELLED and self._last.at == trio.current_time():
            self._last.is_certain = False


class SeenAttempt(CountedAttempt):
    __slots__ = ("_call", "_session_pick")

    def __init__(self, world: World, call: CallPlan) -> None:
        super().__init__(world, call.client)
        self._call = call
        self._session_pick: SessionPick | None = None  # of this attempt: a hedged call has several at a time

    def session_picked(self, pick: SessionPick) -> None:
        self._session_pick = pick

    def picked(self, pick: Pick) -> None:
        world, call = self._world, self._call
        call.session_pick = self._session_pick
        call.picks.append(pick)
        super().picked(pick)
        for invariant in OF_PICKS:
            invariant(world, call, pick)

    def ended(self, status: Status) -> None:
        super().ended(status)
        took = trio.current_time() - self._last.at if self._last is not None else 0.0
        invariants.an_attempt_without_a_response_is_given_up(self._world, self._call, status, took)


class CountedCall(CallObserver):
    __slots__ = ("_client", "_world")

    def __init__(self, world: World, client: Client) -> None:
        self._world = world
        self._client = client

    def attempt(self, previous: int, transparent: bool) -> AttemptObserver:
        return CountedAttempt(self._world, self._client)


class SeenCall(CallObserver):
    __slots__ = ("_call", "_world")

    def __init__(self, world: World, call: CallPlan) -> None:
        self._world = world
        self._call = call

    def routed(self, cluster: str, hedged: bool) -> None:
        call = self._call
        call.routed_to = cluster
        call.routes = call.client.probe.routed_clusters(call.path) if call.client.probe is not None else None

    def attempt(self, previous: int, transparent: bool) -> AttemptObserver:
        return SeenAttempt(self._world, self._call)


class Seen(Observer):
    """The observer of a channel; it is also its `telemetry`."""

    __slots__ = ("_client", "_world")

    def __init__(self, world: World, client: Client) -> None:
        self._world = world
        self._client = client

    def observe(self, target: str, locate: object) -> Observer:
        return self

    def call(self, call: CallStarted) -> CallObserver | None:
        plan = CURRENT.get()
        return CountedCall(self._world, self._client) if plan is None else SeenCall(self._world, plan)

    def outlier(self, outlier: OutlierEvent) -> None:
        if not outlier.unenforced:
            self._world.counts["ejections"] += 1
            # A cluster may be in the tree by itself and in an aggregate: each subtree counts and ejects for itself.
            below_root, model = outlier.policy.partition("/")[2], self._world.model
            names = [each for each in (*model.leaves, *model.aggregates) if below_root.startswith(f"{each}/")]
            cluster = max(names, key=len, default="")
            for address in outlier.addresses:
                self._client.ejected[cluster, outlier.backend, address] = trio.current_time()


# -- cancellation at any step


class CancelAtStep(trio.abc.Instrument):
    """Cancels a call at the k-th step that its task takes; `add` begins to count."""

    def __init__(self) -> None:
        self._counting: dict[trio.lowlevel.Task, list] = {}

    def add(self, plan: CallPlan, scope: trio.CancelScope) -> None:
        self._counting[trio.lowlevel.current_task()] = [plan.cancel_at_step, scope, plan]

    def remove(self) -> None:
        self._counting.pop(trio.lowlevel.current_task(), None)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        count = self._counting.get(task)
        if count is not None:
            count[0] -= 1
            if not count[0]:
                count[1].cancel()
                count[2].cancelled_at = trio.current_time()


# -- one call


def draw(client: Client, random: Random) -> CallPlan:
    """Return a random call."""
    timeout = random.choice([0.05, 0.5, 3.0, 10.0, 30.0])
    plan = CallPlan(client, f"/shop.Cart/{random.choice(METHODS)}", random.choice(KINDS), timeout)
    plan.waits_for_ready = random.random() < 0.2
    if client.keepalive and not plan.waits_for_ready and random.random() < 0.2:
        plan.timeout = None
    roll = random.random()
    if roll < 0.05:
        plan.cancel_after = random.choice([0.0, 0.0005, 0.001, 0.0021, 0.01, 1.0])
    elif roll < 0.1:
        plan.cancel_at_step = random.randint(1, 8)
    return plan


async def make(world: World, plan: CallPlan, caller: object, random: Random, cancel: CancelAtStep) -> Status | None:
    """Make the call and ask its invariants; return its status, None if it was cancelled."""
    plan.began, plan.is_in_calm = trio.current_time(), world.is_calm
    if plan.client.probe is not None:
        plan.routes_at_first = plan.client.probe.routed_clusters(plan.path)
    token, status = CURRENT.set(plan), OK
    world.counts["calls"] += 1
    world.open_calls[plan] = None
    with trio.CancelScope() as scope:
        if plan.cancel_after is not None:
            scope.deadline = plan.began + plan.cancel_after
        if plan.cancel_at_step:
            cancel.add(plan, scope)
        try:
            await _KINDS[plan.kind](plan, caller, random)
        except trxds.RpcError as error:
            status = error.status
        finally:
            cancel.remove()
            CURRENT.reset(token)
            del world.open_calls[plan]
    invariants.a_call_ends_by_its_deadline(world, plan)
    if scope.cancelled_caught:
        world.counts["cancelled calls"] += 1
        return None
    if not status.ok:
        world.counts["failed calls"] += 1
        world.note(f"{plan}: {status}")
        invariants.a_status_names_the_fault(world, plan, status)
        invariants.a_settled_mesh_serves_every_call(world, plan, status)
    return status


def _options(plan: CallPlan) -> dict:
    return {"timeout": plan.timeout, "wait_for_ready": plan.waits_for_ready or None}


async def _unary(plan: CallPlan, caller, random: Random) -> None:
    body = bytes(random.choice([0, 5, 5, 70_000]))
    plan.size = len(body)
    if await caller.method(plan.path)(body, **_options(plan)) != body:
        raise AssertionError(f"{plan}: the reply is not the request")


async def _client_stream(plan: CallPlan, caller, random: Random) -> None:
    method = caller.method(plan.path, client_streaming=True)
    if await method([b"apples"], **_options(plan)) != b"apples":
        raise AssertionError(f"{plan}: the reply is not the request")


async def _server_stream(plan: CallPlan, caller, random: Random) -> None:
    method = caller.method(plan.path, server_streaming=True)
    async with method.open(b"apples", **_options(plan)) as call:
        replies = [reply async for reply in call]
    if replies != [b"apples"]:
        raise AssertionError(f"{plan}: {len(replies)} replies, and not the request")


async def _bidi(plan: CallPlan, caller, random: Random) -> None:
    method = caller.method(plan.path, client_streaming=True, server_streaming=True)
    async with method.open(b"hello", **_options(plan)) as call:
        for number in range(random.randint(0, 3)):
            if await call.receive() is None:
                return
            await _do_something_else(plan, random.choice([0.0, 0.01, 1.0]))
            if not await call.send(b"more %d" % number):
                break
        if random.random() < 0.2:
            return  # the caller leaves the call, which cancels it
        call.done_sending()
        async for _ in call:
            pass


async def _do_something_else(plan: CallPlan, seconds: float) -> None:
    began = trio.current_time()
    try:
        await trio.sleep(seconds)
    finally:
        # Until its deadline or cancellation only, for the call ends then.
        plan.idled += trio.current_time() - began


_KINDS: dict[str, Callable] = {
    "unary": _unary,
    "client stream": _client_stream,
    "server stream": _server_stream,
    "bidi": _bidi,
}
