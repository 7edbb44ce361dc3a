"""A mesh whose routes copy calls to the cluster "shadow", and the host that gets the copies."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio
from support.mesh import Mesh

from trxds import Channel, Mirroring, Observer
from trxds.testing import Server
from trxds.testing import resources as xds

SHADOW = "10.0.2.1:50051"


class Shadow:
    """The host that gets copies: it notes them, and answers as the test says."""

    def __init__(self):
        self.calls = []
        self.requests = []
        self.reset = []  # the requests of copies that ended before their answer
        self.seconds = 0.0
        self.headers = ()
        self.trailers = ()
        self.code = None
        self.handle_with = None

    async def handle(self, call):
        self.calls.append(call)
        if self.handle_with is not None:
            return await self.handle_with(call)
        got = []
        try:
            async for message in call:
                got.append(message)
                self.requests.append(message)
            await trio.sleep(self.seconds)
        except trio.Cancelled:
            self.reset.append(got)
            raise
        call.set_trailing_metadata(self.trailers)
        if self.headers:
            await call.send_initial_metadata(self.headers)
        if self.code is not None:
            call.abort(self.code, "by the shadow")
        await call.send(b"from the shadow")

    @property
    def metadata(self):
        """The metadata of the last copy."""
        return dict(self.calls[-1].metadata)


class Notes(Observer):
    """The results of copies, as an observer gets them."""

    def __init__(self):
        self.all = []

    def mirrored(self, copy):
        self.all.append(copy)

    @property
    def results(self):
        return [each.result for each in self.all]


@dataclass
class Shadowed:
    mesh: Mesh
    channel: Channel
    shadow: Shadow
    notes: Notes


def mirrored(*policies, to="cart", **action):
    """A route whose calls are copied; without policies, all of them to the cluster "shadow"."""
    route = xds.route(to)
    route["route"] |= {"request_mirror_policies": list(policies) or [{"cluster": "shadow"}], **action}
    return route


def share(percent):
    """The field for so many calls of a hundred."""
    return {"runtime_fraction": {"default_value": {"numerator": percent}}}


@asynccontextmanager
async def shadowed(*policies, mirroring=Mirroring(), sessions=False, hosts=1, knobs=None, **options):  # noqa: B008
    """Run the mesh and the host that gets copies, and open a channel that makes them."""
    async with Mesh.run(hosts, sessions=sessions, **(knobs or {})) as mesh:
        shadow, notes = Shadow(), Notes()
        await mesh._serve(Server(fallback=shadow.handle, address=SHADOW, network=mesh.network))
        mesh.cluster("shadow")
        mesh.endpoints("shadow", [SHADOW])
        mesh.route(mirrored(*policies))
        async with mesh.channel(mirroring=mirroring, **options) as channel:
            with channel.observed_by(notes):
                yield Shadowed(mesh, channel, shadow, notes)


async def settled():
    await trio.sleep(0.1)
