"""The admin services of a program (A38): CSDS (A40), channelz (A14), and health for who only asks if it is there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

import trio

from trxds.ads.client import XdsClient
from trxds.ads.line import Line
from trxds.channel.channel import Channel
from trxds.channel.xds import Xds
from trxds.ground.clock import Clock
from trxds.ground.status import StatusCode
from trxds.serving import server
from trxds.serving.call import Call, Handler, bidi_streaming, unary

from . import channelz, health
from .csds import SERVICE, Dump, client_config
from .protos import ClientStatusRequest, ClientStatusResponse

Source: TypeAlias = Channel | Xds

_AT_ONCE = 100  # resources between two checkpoints


@asynccontextmanager
async def serve(
    *sources: Source, address: str = "127.0.0.1:0", network: server.Listening | None = None
) -> AsyncIterator[str]:
    """Tell about these channels and shared xDS clients while the block lasts; the value is the address.

    `address` is `host:port`, port 0 for a free one, or `unix:/path`. `network` replaces sockets, for tests.
    There is no security but who can connect. Raises `OSError` if nobody can listen there.
    """
    async with server.serve(_handlers(sources), address=address, network=network, remember_calls=False) as serving:
        yield serving.address


def _handlers(sources: tuple[Source, ...]) -> Mapping[str, Handler]:
    async def fetch(request: Any, call: Call) -> Any:
        return await _answer(sources, request, call)

    async def stream(requests: AsyncIterator[Any], call: Call) -> AsyncGenerator[Any, None]:
        # It is no watch: each answer is to a question.
        async for request in requests:
            yield await _answer(sources, request, call)

    parse, serialize = ClientStatusRequest.FromString, ClientStatusResponse.SerializeToString
    return {
        **health.HANDLERS,
        **channelz.handlers(partial(_channels, sources)),
        f"{SERVICE}/FetchClientStatus": unary(fetch, parse, serialize),
        f"{SERVICE}/StreamClientStatus": bidi_streaming(stream, parse, serialize),
    }


def _channels(sources: tuple[Source, ...]) -> Iterator[Channel | Line]:
    """Those to services, then those to the control planes; of a client that several share, once."""
    yield from (source for source in sources if isinstance(source, Channel))
    for client in dict.fromkeys(source._client for source in sources):
        if client is not None:
            yield from client.lines


async def _answer(sources: tuple[Source, ...], request: Any, call: Call) -> Any:
    if request.node_matchers:
        call.abort(StatusCode.INVALID_ARGUMENT, "node_matchers are for control planes; leave them out (A40)")
    dump = Dump(Clock.now(), contents=not request.exclude_resource_contents)
    clients = ((source, source._client) for source in sources)
    configs = [await _config(source, client, dump) for source, client in clients if client is not None]
    return ClientStatusResponse(config=configs)


async def _config(source: Source, client: XdsClient, dump: Dump) -> Any:
    config = client_config(source.target if isinstance(source, Channel) else "", client.node)
    for number, resource in enumerate(tuple(client.resources), 1):
        config.generic_xds_configs.append(dump.config(resource))
        if number % _AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
    return config
