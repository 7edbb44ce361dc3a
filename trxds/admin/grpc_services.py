"""The admin services that speak gRPC (A38): CSDS (A40), channelz (A14), and health for orchestrators."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

from trxds.core.clock import Clock
from trxds.core.status import StatusCode
from trxds.server.handlers import bidi_streaming, unary
from trxds.server.server_call import Call, Handler
from trxds.transport.run_in_thread import run_in_thread
from trxds.xds.xds_channel import XdsChannel
from trxds.xds.xds_client import XdsClient

from . import channelz, health
from .access import AccessPolicy
from .channel_source import Source, XdsSource
from .csds import SERVICE, CsdsEncoder, client_config
from .protos import ClientStatusRequest, ClientStatusResponse

_BATCH_SIZE = 100  # resources that a thread makes messages of at a time


def grpc_handlers(sources: Sequence[Source | XdsSource]) -> Mapping[str, Handler]:
    """Return the handlers by path, which answer everybody.

    A server that has services of its own can serve these beside them.
    """

    async def fetch(request: Any, call: Call) -> Any:
        return await _answer(sources, request, call)

    async def stream(requests: AsyncIterator[Any], call: Call) -> AsyncGenerator[Any, None]:
        # CSDS has no watch: each response answers one request (A40).
        async for request in requests:
            yield await _answer(sources, request, call)

    parse, serialize = ClientStatusRequest.FromString, ClientStatusResponse.SerializeToString
    return {
        **health.HANDLERS,
        **channelz.handlers(partial(_channels, sources)),
        f"{SERVICE}/FetchClientStatus": unary(fetch, parse, serialize),
        f"{SERVICE}/StreamClientStatus": bidi_streaming(stream, parse, serialize),
    }


def guarded_handlers(handlers: Mapping[str, Handler], access: AccessPolicy) -> Mapping[str, Handler]:
    """Return these handlers for calls that send the token, if the admin surface has one."""
    return {path: _guarded(handler, access) for path, handler in handlers.items()}


def _guarded(handler: Handler, access: AccessPolicy) -> Handler:
    async def guarded(call: Call) -> None:
        if not access.admits(str(call.metadata.first("authorization") or "")):
            text = "the token is missing or wrong; send it as metadata: authorization: Bearer TOKEN"
            call.abort(StatusCode.UNAUTHENTICATED, text)
        await handler(call)

    return guarded


def _clients(sources: Sequence[Source | XdsSource]) -> Iterator[tuple[str, XdsClient]]:
    """Return the xDS clients, each with its scope: the channel's target, empty for a client that is shared."""
    for source in sources:
        if isinstance(source, Source):
            view = source.admin_view()
            if view.client is not None:
                yield view.target, view.client
        else:
            yield "", source.admin_client()


def _channels(sources: Sequence[Source | XdsSource]) -> Iterator[Source | XdsChannel]:
    """Return the channels to services, then those to control planes. A client that channels share appears once."""
    yield from (source for source in sources if isinstance(source, Source))
    for client in dict.fromkeys(client for _, client in _clients(sources)):
        yield from client.xds_channels


async def _answer(sources: Sequence[Source | XdsSource], request: Any, call: Call) -> Any:
    if request.node_matchers:
        call.abort(StatusCode.INVALID_ARGUMENT, "node_matchers are for control planes; leave them out (A40)")
    dump = CsdsEncoder(Clock.now(), contents=not request.exclude_resource_contents)
    configs = [await _config(scope, client, dump) for scope, client in _clients(sources)]
    return ClientStatusResponse(config=configs)


async def _config(scope: str, client: XdsClient, dump: CsdsEncoder) -> Any:
    config = client_config(scope, client.node)
    resources = tuple(client.resources)
    for start in range(0, len(resources), _BATCH_SIZE):
        batch = tuple(map(copy, resources[start : start + _BATCH_SIZE]))  # the client changes its own
        # To look for sensitive fields in thousands of endpoints takes a second, which RPCs must not wait for.
        config.generic_xds_configs.extend(await run_in_thread(partial(dump.configs, batch)))
    return config
