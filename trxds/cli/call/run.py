"""`trxds call` from its options to its exit status: a channel, the schema, then a list, a description or calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from google.protobuf.descriptor import ServiceDescriptor
from msgspec import Struct

import trxds
from trxds import BootstrapError, RpcError, SessionTokenError
from trxds.cli.exit_codes import SUCCESS, UNREACHABLE, USAGE
from trxds.cli.own_bootstrap import own_bootstrap, xds_advice
from trxds.cli.parameters import in_options
from trxds.client.method import checked_path
from trxds.server.protos import REFLECTION_PATHS

from .caller import Caller, CallPlan
from .output import Output
from .reflection import REMEDY, ReflectionFailedError, ReflectionSchema
from .schema import CallError, FileSchema, Schema
from .symbols import as_method, description, find, method_name, names


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """The session of the calls; `token` and `key` continue one."""

    is_wanted: bool = False
    token: str | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    shows_token: bool = False


class Plan(Struct, frozen=True):
    """What the command is to do. `schema` is None for server reflection.

    `options` are those of `open_channel`. `within` is in seconds, for a configuration and for the schema.
    """

    target: str
    symbol: str = ""
    action: Literal["call", "list", "describe"] = "call"
    options: Mapping[str, Any] = field(default_factory=dict)
    schema: FileSchema | None = None
    within: float = 20.0
    calls: CallPlan = field(default_factory=CallPlan)
    session: SessionPlan = field(default_factory=SessionPlan)


async def run_plan(plan: Plan, output: Output) -> int:
    """Do it; return the exit status. Raises `CallError`."""
    if plan.schema is not None and plan.action != "call":
        return await _show(plan, plan.schema, output)  # files say it, so nobody needs to be asked
    async with _open(plan) as channel:
        code = await _answer(channel, plan, output)
    if code == UNREACHABLE and (advice := xds_advice(plan.target, plan.options.get("bootstrap"))):
        output.note(advice)
    return code


async def _answer(channel: trxds.Channel, plan: Plan, output: Output) -> int:
    try:
        return await _run_on(channel, plan, output)
    except ReflectionFailedError as error:
        explanation = None
        if plan.calls.is_explained is not False:
            explanation = await channel.explain(error.path, plan.calls.metadata)
        output.failure(error.error, [], explanation)
        output.note(f"This was server reflection, which tells the types of the call. Without it, {REMEDY}.")
        return error.code


async def _run_on(channel: trxds.Channel, plan: Plan, output: Output) -> int:
    schema = plan.schema or ReflectionSchema(channel, plan.calls.metadata, plan.within, plan.calls.wait_for_ready)
    try:
        # It waits for the configuration, and says what is missing if none comes.
        await channel.explain(_path(plan.symbol), plan.calls.metadata, plan.within)
    except RpcError as error:
        raise CallError(str(error), UNREACHABLE) from None
    if plan.action != "call":
        return await _show(plan, schema, output)
    symbol = await find(schema, plan.symbol)
    if isinstance(symbol, ServiceDescriptor) and plan.calls.data is None:
        output.listing([method_name(each) for each in symbol.methods])
        return SUCCESS
    caller = Caller(schema, as_method(symbol), plan.calls, output)
    if not plan.session.is_wanted:
        return await caller.run(channel)
    return await _run_in_session(channel, caller, plan, output)


def _path(symbol: str) -> str:
    """Return the path of the method that is asked for; that of reflection if the text is no method with a slash."""
    try:
        return checked_path(f"/{symbol.removeprefix('/')}")
    except ValueError:
        return REFLECTION_PATHS[0]


@asynccontextmanager
async def _open(plan: Plan) -> AsyncIterator[trxds.Channel]:
    async with AsyncExitStack() as stack:
        try:
            bootstrap = own_bootstrap(plan.target, plan.options.get("bootstrap"))
            options = {**plan.options, "bootstrap": bootstrap}
            channel = await stack.enter_async_context(trxds.open_channel(plan.target, **options))
        except ValueError as error:
            raise CallError(in_options(str(error)), USAGE) from error
        except BootstrapError as error:
            raise CallError(str(error), USAGE) from error
        yield channel


async def _show(plan: Plan, schema: Schema, output: Output) -> int:
    show = names if plan.action == "list" else description
    output.listing(await show(schema, plan.symbol))
    return SUCCESS


async def _run_in_session(channel: trxds.Channel, caller: Caller, plan: Plan, output: Output) -> int:
    wanted = plan.session
    async with AsyncExitStack() as stack:
        try:
            session = await stack.enter_async_context(channel.session(wanted.token, key=wanted.key))
        except (SessionTokenError, ValueError) as error:
            raise CallError(f"--session-token or --session-key: {error}", USAGE) from None
        explanation = await session.explain(caller.path, plan.calls.metadata)
        if explanation.unsticky:
            output.note(f"warning: the session is not sticky: {explanation.unsticky}")
        code = await caller.run(session)
        for key, at in session.hosts.items():
            output.beside(f"session by {key.name}: on {at.host}, cluster {at.cluster or '-'}")
        if not session.hosts:
            output.beside("session: on no host")
        if wanted.shows_token:
            output.note(f"session token: {session.export(key=wanted.key)}")
        return code
