"""The soak cases: large unary calls, one after another, with a budget for failures and for time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

import trio
from msgspec import Struct

from trxds.client.channel import Channel
from trxds.core.status import RpcError

from .cases import Failed, expect, service, zeros
from .protos import SimpleRequest

OpenChannel = Callable[[], AbstractAsyncContextManager[Channel]]


class Soak(Struct, frozen=True):
    """The values of the `--soak_*` flags; times are seconds, sizes are bytes."""

    iterations: int
    max_failures: int
    max_latency: float
    overall_timeout: float
    pause: float
    request_size: int
    response_size: int
    workers: int


async def rpc_soak(soak: Soak, open_channel: OpenChannel) -> None:
    """Make all calls on one channel."""
    async with open_channel() as channel:
        await _soak(soak, lambda: nullcontext(channel))


async def channel_soak(soak: Soak, open_channel: OpenChannel) -> None:
    """Make each call on a channel of its own."""
    await _soak(soak, open_channel)


async def _soak(soak: Soak, open_channel: OpenChannel) -> None:
    if soak.iterations % soak.workers:
        raise Failed(f"{soak.iterations} iterations cannot be shared by {soak.workers} workers evenly")
    results: list[bool] = []
    with trio.move_on_after(soak.overall_timeout):
        async with trio.open_nursery() as nursery:
            for worker in range(soak.workers):
                nursery.start_soon(_work, soak, worker, open_channel, results)
    expect(len(results), soak.iterations, f"iterations done in {soak.overall_timeout:g} s")
    if results.count(False) > soak.max_failures:
        raise Failed(f"{results.count(False)} of {soak.iterations} iterations failed; {soak.max_failures} may")


async def _work(soak: Soak, worker: int, open_channel: OpenChannel, results: list[bool]) -> None:
    for iteration in range(soak.iterations // soak.workers):
        begun = trio.current_time()
        async with open_channel() as channel:
            peer, problem = await _iterate(soak, channel)
        took = trio.current_time() - begun
        if not problem and took > soak.max_latency:
            problem = f"exceeds max acceptable latency of {soak.max_latency * 1000:.0f} ms"
        results.append(not problem)
        where = f"worker: {worker} soak iteration: {iteration} elapsed_ms: {took * 1000:.0f} peer: {peer}"
        print(f"{where} {f'failed: {problem}' if problem else 'succeeded'}", file=sys.stderr)
        await trio.sleep_until(begun + soak.pause)


async def _iterate(soak: Soak, channel: Channel) -> tuple[str, str]:
    """Make one call; return the server that answered, and what was wrong, if anything."""
    request = SimpleRequest(response_size=soak.response_size, payload=zeros(soak.request_size))
    try:
        async with service(channel).UnaryCall.open(request) as call:
            reply = await call.receive()
            size = len(reply.payload.body) if reply is not None else -1
            wrong = "" if size == soak.response_size else f"{size} bytes in the reply, not {soak.response_size}"
            return call.peer, wrong
    except RpcError as error:
        return error.peer, str(error)
