"""Mirroring: copies of calls go to another cluster, bounded, and never in the way of the call."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import METHOD, Mesh, ask, bidi, method

import trxds
from trxds import CallCredentials, Mirroring, Observer, RpcError, StatusCode
from trxds.testing import Server
from trxds.testing import resources as xds

SHADOW = "10.0.2.1:50051"


class Shadow:
    """The host that gets copies: it notes them, and answers as the test says."""

    def __init__(self):
        self.calls = []
        self.requests = []
        self.seconds = 0.0
        self.ended = []
        self.reply = b"from the shadow"
        self.headers = ()
        self.code = None

    async def handle(self, call):
        self.calls.append(call)
        try:
            async for message in call:
                self.requests.append(message)
            await trio.sleep(self.seconds)
            if self.headers:
                await call.send_initial_metadata(self.headers)
            if self.code is not None:
                call.abort(self.code, "by the shadow")
            await call.send(self.reply)
        finally:
            self.ended.append(trio.current_time())

    @property
    def metadata(self):
        return dict(self.calls[-1].metadata)


class Notes(Observer):
    """The results of copies, as an observer hears them."""

    def __init__(self):
        self.all = []

    def mirrored(self, copy):
        self.all.append(copy)

    @property
    def results(self):
        return [each.result for each in self.all]


def mirrored(*policies, to="cart"):
    """A route whose calls are copied."""
    route = xds.route(to)
    route["route"]["request_mirror_policies"] = list(policies) or [{"cluster": "shadow"}]
    return route


@asynccontextmanager
async def shadowed(*policies, mirroring=Mirroring(), sessions=False, **options):  # noqa: B008
    """A mesh, the host that gets copies, and a channel that makes them."""
    async with Mesh.run(hosts=1, sessions=sessions) as mesh:
        shadow = Shadow()
        await mesh._serve(Server(fallback=shadow.handle, address=SHADOW, network=mesh.network))
        mesh.cluster("shadow")
        mesh.endpoints("shadow", [SHADOW])
        mesh.route(mirrored(*policies))
        async with mesh.channel(mirroring=mirroring, **options) as channel:
            notes = Notes()
            with channel.observed_by(notes):
                yield mesh, channel, shadow, notes


async def settled():
    await trio.sleep(0.1)


async def test_a_copy_of_a_call_goes_to_the_mirror_cluster(autojump_clock):
    async with shadowed() as (mesh, channel, shadow, notes):
        assert await method(channel)(b"milk") == f"{mesh.hosts[0]} milk".encode()
        await settled()
        assert shadow.requests == [b"milk"]
        assert shadow.calls[0].path == METHOD
        assert [(each.cluster, each.result, each.status.code) for each in notes.all] == [
            ("shadow", "completed", StatusCode.OK)
        ]
