"""The calls of `trxds call`: any of the four kinds, one after the other, in a session or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any

import trio
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

import trxds
from trxds import Metadata, RpcError
from trxds.cli.exit_codes import FAILURE, SUCCESS, UNREACHABLE, USAGE
from trxds.core.plural import plural

from .data import Data
from .json_replies import detail_data, reply_data, unknown_types
from .json_requests import JsonText, packed_types, parse_request, read_requests
from .output import Output
from .schema import CallError, Schema
from .symbols import method_name


@dataclass(frozen=True, slots=True)
class CallPlan:
    """The calls to make: `repeat` of them, with these requests and options.

    `timeout` is in seconds for each call, None for no limit. `is_explained`: whether to say where a call goes; None is
    for failures only.
    """

    data: Data | None = None
    metadata: Metadata = field(default=Metadata(), repr=False)
    timeout: float | None = None
    wait_for_ready: bool | None = None
    repeat: int = 1
    with_defaults: bool = False
    is_explained: bool | None = None


class Caller:
    """Makes the calls of one method, and prints what comes of them."""

    def __init__(self, schema: Schema, method: MethodDescriptor, plan: CallPlan, output: Output) -> None:
        self.path = f"/{method_name(method)}"
        self.hosts: Counter[str] = Counter()
        self.errors: list[RpcError] = []
        self._schema = schema
        self._method = method
        self._plan = plan
        self._output = output
        self._unknown: set[str] = set()  # types that the server does not know either

    async def run(self, caller: trxds.Channel | trxds.Session) -> int:
        """Make the calls; return the exit status. Raises `CallError` for requests that do not fit the method."""
        plan = self._plan
        prepared = None if self._is_live else [each async for each in self._read()]
        if prepared is not None and not self._method.client_streaming and len(prepared) != 1:
            text = f"{method_name(self._method)} takes one request, and -d has {len(prepared) or 'none'}"
            raise CallError(f"{text}{'' if prepared else '; {} is an empty one'}", USAGE)
        for _ in range(plan.repeat):
            host, error = await self._call(caller, prepared)
            self.hosts[host] += 1
            if error is not None:
                self.errors.append(error)
                await self._show_failure(caller, error, is_first=len(self.errors) == 1)
        if plan.is_explained and not self.errors:
            self._output.explanation(await caller.explain(self.path, plan.metadata))
        if plan.repeat > 1:
            self._output.note(self._summary(caller))
        if not self.errors:
            return SUCCESS
        return FAILURE if any(error.peer for error in self.errors) else UNREACHABLE

    # -- requests

    @property
    def _is_live(self) -> bool:
        """Whether requests are sent as they come from stdin."""
        data = self._plan.data
        return data is not None and data.is_stdin and self._method.client_streaming and self._plan.repeat == 1

    async def _read(self) -> AsyncGenerator[Message, None]:
        data = self._plan.data
        if data is None:
            if not self._method.client_streaming:
                yield GetMessageClass(self._method.input_type)()
            return
        async with aclosing(data.read()) as texts:
            async for text in texts:
                for request in await self._parsed(text, data.source):
                    yield request

    async def _parsed(self, text: JsonText, source: str) -> list[Message]:
        value = parse_request(text, source)
        for name in packed_types(value):
            await self._schema.load(name)
        return read_requests(value, text, GetMessageClass(self._method.input_type), self._schema.pool, source)

    # -- one call

    async def _call(
        self, caller: trxds.Channel | trxds.Session, prepared: list[Message] | None
    ) -> tuple[str, RpcError | None]:
        """Make a call; return the host that had it, empty for none, and its failure."""
        method, plan = self._method, self._plan
        callable_method = caller.method(
            self.path,
            GetMessageClass(method.input_type),
            GetMessageClass(method.output_type),
            client_streaming=method.client_streaming,
            server_streaming=method.server_streaming,
        )
        try:
            opened = callable_method.open(
                timeout=plan.timeout, metadata=plan.metadata, wait_for_ready=plan.wait_for_ready
            )
            async with opened as call:
                await self._exchange(call, prepared)
                self._output.metadata("trailing metadata", call.trailing_metadata)
                host = call.peer
        except RpcError as error:
            self._output.metadata("trailing metadata", error.trailing_metadata)
            return error.peer, error
        return host, None

    async def _exchange(self, call: trxds.Call[Any, Any], prepared: list[Message] | None) -> None:
        failures: list[Exception] = []  # and not raised within, where they would become groups

        async def send() -> None:
            try:
                await self._send(call, prepared)
            except CallError as error:
                failures.append(error)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, name="call/send")
            try:
                await self._receive(call)
            except RpcError as error:
                failures.append(error)
            nursery.cancel_scope.cancel()
        if failures:
            raise failures[0]

    async def _send(self, call: trxds.Call[Any, Any], prepared: list[Message] | None) -> None:
        with suppress(RpcError):  # which `receive` raises too
            if prepared is not None:
                for request in prepared:
                    if not await call.send(request):
                        return
            else:
                async with aclosing(self._read()) as requests:
                    async for request in requests:
                        if not await call.send(request):
                            return
            call.done_sending()

    async def _receive(self, call: trxds.Call[Any, Any]) -> None:
        initial = await call.wait_initial_metadata()
        if call.peer:
            self._output.beside(f"host: {call.peer}")
        self._output.metadata("initial metadata", initial)
        async for reply in call:
            for name in unknown_types(reply, self._schema.pool) - self._unknown:
                await self._learn(name)
            self._output.reply(reply_data(reply, self._schema.pool, self._plan.with_defaults))

    async def _learn(self, name: str) -> None:
        """Ask for the type of a packed message; without it the message is shown as bytes."""
        with suppress(CallError):
            if await self._schema.load(name):
                return
        self._unknown.add(name)

    # -- afterwards

    async def _show_failure(self, caller: trxds.Channel | trxds.Session, error: RpcError, is_first: bool) -> None:
        details = []
        for packed in getattr(error.status.rich, "details", ()):
            if (name := packed.type_url.rpartition("/")[2]) not in self._unknown:
                await self._learn(name)
            details.append(detail_data(packed, self._schema.pool))
        explanation = None
        if is_first and self._plan.is_explained is not False:
            with suppress(RpcError):
                explanation = await caller.explain(self.path, self._plan.metadata, timeout=1)
        self._output.failure(error, details, explanation)

    def _summary(self, caller: trxds.Channel | trxds.Session) -> str:
        hosts = ", ".join(f"{count} to {host or 'no host'}" for host, count in sorted(self.hosts.items()))
        where = " of one session" if isinstance(caller, trxds.Session) else ""
        failed = f"; {len(self.errors)} failed" if self.errors else ""
        return f"{plural(self._plan.repeat, 'call')}{where}: {hosts}{failed}"
