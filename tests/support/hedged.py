"""A host whose answers follow a script, and a channel whose calls to it are hedged."""

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import Mesh, bidi, method
from support.method_config import configured, for_all

from trxds import RpcError, StatusCode
from trxds.transport.client_stream import ClientStream

PATH = "/shop.Cart/Fail"
HEDGING = {"maxAttempts": 4, "hedgingDelay": "1s", "nonFatalStatusCodes": ["UNAVAILABLE"]}
THROTTLE = {"maxTokens": 4, "tokenRatio": 0.5}


@asynccontextmanager
async def queued_hedge(monkeypatch, then):
    """Yield a hedged stream and its host, which takes one at a time; `then(call)` follows as the hedge's stream opens.

    The first attempt fails, and the second one waits for its end.
    """
    policy = HEDGING | {"maxAttempts": 2, "hedgingDelay": "0.05s"}
    begin = ClientStream.begin

    async with Mesh.run(1, max_concurrent_streams=1) as mesh:
        host = mesh.servers[mesh.hosts[0]].handlers[PATH] = Host(StatusCode.UNAVAILABLE, 1)
        document = for_all(hedgingPolicy=policy)
        async with configured(monkeypatch, mesh, document) as channel, bidi(channel, PATH).open(b"one") as call:

            def begin_second(stream, *at, **how):
                begin(stream, *at, **how)
                then(call)

            monkeypatch.setattr(ClientStream, "begin", begin_second)
            yield call, host


class Host:
    """Handles each attempt by the entry of the script for its number; the last entry holds for all later ones.

    A number is the delay of the response in seconds, a code is a failure at once, and a text a failure with that
    pushback.
    """

    def __init__(self, *script, code=StatusCode.UNAVAILABLE):
        self.script, self.code = script, code
        self.came = []  # when, and what the client said of attempts before
        self.said = []  # by each
        self.over = []  # with which status

    async def __call__(self, call):
        number = len(self.came)
        self.came.append((trio.current_time(), call.metadata.first("grpc-previous-rpc-attempts")))
        said = []
        self.said.append(said)
        todo = self.script[min(number, len(self.script) - 1)]
        try:
            if isinstance(todo, str):
                call.set_trailing_metadata([("grpc-retry-pushback-ms", todo)])
                call.abort(self.code, "pushed back")
            if isinstance(todo, StatusCode):
                await trio.sleep(0.1)
                call.abort(todo, f"attempt {number}")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen, call, said)
                await trio.sleep(todo)
                await call.send(b"%d" % number)
        finally:
            self.over.append(number)

    async def _listen(self, call, said):
        async for message in call:
            said.append(message)

    @property
    def times(self):
        return [round(when - self.came[0][0], 1) for when, _ in self.came]


class Hedged:
    """A mesh, a channel whose calls are hedged, and the host's script."""

    def __init__(self, monkeypatch, policy=HEDGING, throttling=None, hosts=1, channel_options=None):
        self.document = for_all(throttling, hedgingPolicy=policy)
        self.monkeypatch, self.hosts, self.channel_options = monkeypatch, hosts, channel_options or {}

    async def __aenter__(self):
        self._mesh = Mesh.run(self.hosts)
        self.mesh = await self._mesh.__aenter__()
        self._channel = configured(self.monkeypatch, self.mesh, self.document, **self.channel_options)
        self.channel = await self._channel.__aenter__()
        self.host = self.serve(Host(0))
        await method(self.channel, PATH)(b"")  # connected
        return self

    def serve(self, host):
        for server in self.mesh.servers.values():
            server.handlers[PATH] = host
        self.host = host
        return host

    async def __aexit__(self, *error):
        try:
            await self._channel.__aexit__(*error)
        finally:
            await self._mesh.__aexit__(*error)

    async def ask(self, **more):
        return await method(self.channel, PATH)(b"x", **more)

    async def failure(self, **more):
        with pytest.raises(RpcError) as caught:
            await self.ask(**more)
        return caught.value.status
