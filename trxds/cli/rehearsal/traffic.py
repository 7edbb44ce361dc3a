"""The clients of a rehearsal. Each has a channel of its own, as each process has, and calls at a steady rate.

A call begins when it is due, whether the one before it has ended or not: a slow mesh must not get fewer calls.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from itertools import count

import trio

from trxds.client.method import Method
from trxds.client.stub import MethodFactory
from trxds.core.status import RpcError
from trxds.testing.simulation.simulation import Simulation

from .mesh_of_files import bootstrap_of
from .plan import Plan
from .record import ClientObserver, Failure, Record

REQUEST = b"rehearsal"


async def run_client(mesh: Simulation, plan: Plan, number: int, record: Record) -> None:
    """Run one client until the end of the rehearsal, and its last calls to theirs."""
    load, now = plan.load, trio.lowlevel.current_clock().current_time
    node = f"client-{number}"
    everything = (*plan.resources, *(each for step in plan.steps for each in step.resources))
    target, paths = list(load.targets.items())[(number - 1) % len(load.targets)]
    observer = ClientObserver(number, record, now)
    bootstrap = bootstrap_of(everything, node, delta=plan.delta)
    async with AsyncExitStack() as stack:
        channel = await stack.enter_async_context(
            mesh.open_channel(
                target, client=node, bootstrap=bootstrap, telemetry=observer, keepalive_time=load.keepalive
            )
        )
        sessions = [await stack.enter_async_context(channel.session()) for _ in range(load.sessions)]
        callers: list[MethodFactory] = [*sessions] or [channel]
        methods = [caller.method(path) for caller in callers for path in paths]
        random, left = mesh.random(node), list[Method[bytes, bytes]]()
        async with trio.open_nursery() as nursery:
            # Clients begin at different times, or all would call in the same moment.
            first = random.uniform(0, 1 / load.rps)
            for call in count():
                due = first + call / load.rps
                if due >= plan.end:
                    break
                await trio.sleep_until(due)
                # In any order: if sessions took turns, round robin would lead each to the same host every time.
                left = left or random.sample(methods, len(methods))
                nursery.start_soon(_call, left.pop(), load.timeout, number, record)
            # The open calls go on to their ends: one that hangs is no success.
            await trio.sleep_until(plan.end)


async def _call(method: Method[bytes, bytes], timeout: float, number: int, record: Record) -> None:
    began = trio.current_time()
    try:
        await method(REQUEST, timeout=timeout)
    except RpcError as error:
        # The same error of all clients is one.
        message = error.status.message.replace(f'"client-{number}"', '"client"')
        failure = Failure(trio.current_time(), number, method.path, error.status.code.name, message)
        record.failures.append(failure)
    else:
        record.calls.append((began, trio.current_time() - began))
