"""The load of an xDS test client: RPCs at a steady rate, on one channel after the other."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any

import trio
from msgspec import Struct

from trxds.client.channel import Channel
from trxds.core.status import RpcError, StatusCode

from .cases import Failed, service, zeros
from .protos import Empty, SimpleRequest
from .rpc_config import RpcConfig, RpcType
from .rpc_stats import RpcResult, RpcStats


class SenderSettings(Struct, frozen=True):
    """The flags that concern the load. `rate` is of each channel and each type of RPC, in RPCs a second."""

    rate: int = 1
    expected: StatusCode = StatusCode.OK  # of an RPC that counts as a success for `fails_early`
    fails_early: bool = False
    prints_responses: bool = False
    logs_rpcs: bool = False
    request_size: int = 0  # bytes of UnaryCall's payload
    response_size: int = 0


class RpcSender:
    """Sends the RPCs of `configs`, which may be replaced at any time, and has `stats` count them."""

    def __init__(self, settings: SenderSettings, configs: tuple[RpcConfig, ...], stats: RpcStats) -> None:
        self.configs = configs
        self._settings = settings
        self._stats = stats
        self._has_succeeded = False
        self._requests = {
            RpcType.EMPTY_CALL: Empty(),
            RpcType.UNARY_CALL: SimpleRequest(
                fill_server_id=True,
                payload=zeros(settings.request_size) if settings.request_size else None,
                response_size=settings.response_size,
            ),
        }

    async def run(self, channels: Sequence[Channel]) -> None:
        """Send until cancelled. With `fails_early` a failure after the first success raises `Failed`, in a group."""
        stubs = [service(channel) for channel in channels]
        period = 1 / (self._settings.rate * len(stubs))
        due = trio.current_time()
        async with trio.open_nursery() as nursery:
            for stub in itertools.cycle(stubs):
                for config in self.configs:
                    # Here, so that numbers are in the order of sending.
                    number = self._stats.start(config.type)
                    nursery.start_soon(self._send, stub, config, number, name=f"{config.type.method} {number}")
                # What a busy machine could not send in time is left out: to catch up would be a burst.
                due = max(due + period, trio.current_time())
                await trio.sleep_until(due)

    async def _send(self, stub: Any, config: RpcConfig, number: int) -> None:
        method = getattr(stub, config.type.method)
        self._log(number, config, "starts")
        begun = trio.current_time()
        reply: Any = None
        ended: Any  # a `CompletedCall` or an `RpcError`, which have the same attributes
        try:
            reply, ended = await method.with_call(
                self._requests[config.type], metadata=config.metadata, timeout=config.timeout
            )
        except RpcError as error:
            ended = error
        host = _hostname(ended, reply)
        self._log(number, config, f"ends with {ended.status} after {trio.current_time() - begun:.3f} s, host {host!r}")
        result = RpcResult(ended.status.code, host, ended.initial_metadata, ended.trailing_metadata)
        self._stats.end(number, config.type, result)
        self._judge(ended, host)

    def _judge(self, ended: Any, host: str) -> None:
        """Print the outcome, and end the client if it has to."""
        is_success = ended.status.code is self._settings.expected
        if self._settings.prints_responses:
            # Harnesses that cannot reach the services look for this line in the output.
            line = f"Greeting: Hello world, this is {host}, from {ended.peer}" if is_success else f"RPC failed: {ended}"
            print(line, flush=True)
        if is_success:
            self._has_succeeded = True
        elif self._settings.fails_early and self._has_succeeded:
            raise Failed(f"an RPC failed after one had succeeded, and --fail_on_failed_rpc is set: {ended}")

    def _log(self, number: int, config: RpcConfig, event: str) -> None:
        if self._settings.logs_rpcs:
            print(f"{config.type.method} {number} {event}", file=sys.stderr, flush=True)


def _hostname(ended: Any, reply: Any) -> str:
    """Return the name that the server gives itself: in its headers, or in the reply of UnaryCall."""
    header = ended.initial_metadata.first("hostname")
    return header if isinstance(header, str) else getattr(reply, "hostname", "")
