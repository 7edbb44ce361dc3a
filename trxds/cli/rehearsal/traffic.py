"""The clients of a rehearsal. Each has a channel of its own, as each process has, and calls at a steady rate.

A call begins when it is due, whether the one before it has ended or not: a slow mesh must not get fewer calls.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from itertools import count

import trio

from trxds.client.method import Method
from trxds.client.stub import MethodFactory
from trxds.core.metadata import Metadata
from trxds.core.status import RpcError
from trxds.testing.simulation.simulation import Simulation

from .client_bootstrap import of_client
from .plan import Plan
from .record import ClientObserver, Failure, Record
from .routes import metadata_of

REQUEST = b"rehearsal"


async def run_client(mesh: Simulation, plan: Plan, number: int, record: Record) -> None:
    """Run one client until the end of the rehearsal, and its last calls to theirs."""
    load, now = plan.load, trio.lowlevel.current_clock().current_time
    node = f"client-{number}"
    target, calls = list(load.targets.items())[(number - 1) % len(load.targets)]
    observer = ClientObserver(number, record, now)
    async with AsyncExitStack() as stack:
        channel = await stack.enter_async_context(
            mesh.open_channel(
                target,
                client=node,
                bootstrap=of_client(plan.bootstrap, node),
                telemetry=observer,
                keepalive_time=load.keepalive,
            )
        )
        sessions = [await stack.enter_async_context(channel.session()) for _ in range(load.sessions)]
        callers: list[MethodFactory] = [*sessions] or [channel]
        pairs = [(each.path, metadata_of(each)) for each in calls]
        kinds = [(caller.method(path), metadata) for caller in callers for path, metadata in pairs]
        random, left = mesh.random(node), list[tuple[Method[bytes, bytes], Metadata]]()
        async with trio.open_nursery() as nursery:
            # Clients begin at different times, or all would call in the same moment.
            first = random.uniform(0, 1 / load.rps)
            for call in count():
                due = first + call / load.rps
                if due >= plan.end:
                    break
                await trio.sleep_until(due)
                # In any order: if sessions took turns, round robin would lead each to the same host every time.
                left = left or random.sample(kinds, len(kinds))
                nursery.start_soon(_call, *left.pop(), load.timeout, number, record)
            # The open calls go on to their ends: one that hangs is no success.
            await trio.sleep_until(plan.end)


async def _call(method: Method[bytes, bytes], metadata: Metadata, timeout: float, number: int, record: Record) -> None:
    began = trio.current_time()
    try:
        await method(REQUEST, timeout=timeout, metadata=metadata)
    except RpcError as error:
        # The same error of all clients is one.
        message = error.status.message.replace(f'"client-{number}"', '"client"')
        failure = Failure(trio.current_time(), number, method.path, error.status.code.name, message)
        record.failures.append(failure)
    else:
        record.calls.append((began, trio.current_time() - began))
