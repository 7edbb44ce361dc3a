"""HTTP filters as a program may write them, for tests."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
from support.mesh import ask

from trxds import RpcError
from trxds.filters import FilterCall, FilterStep, FilterType, Wait
from trxds.testing import resources as xds

TENANT = "my.pkg.Tenant"
OWN = "my.pkg.Own"


class Tenant:
    """Adds a header to each call."""

    def __init__(self, settings, context):
        self.header, self.value = settings["header"], settings.get("value", context.name)

    def start(self, call):
        call.metadata = [*call.metadata, (self.header, self.value)]

    def explain(self, call):
        self.start(call)
        return FilterStep(f"adds {self.header}")


class Starts:
    """A filter that is one function; it does not explain itself."""

    def __init__(self, start):
        self.start = start


class Recorded(FilterCall):
    """Notes what happens to a call, with a name in front."""

    def __init__(self, name, seen):
        self.name, self.seen = name, seen

    def on_send(self, message):
        self.seen.append(f"{self.name} sends {message.decode()}")
        return message + self.name.encode()

    def on_headers(self, metadata):
        self.seen.append(f"{self.name} headers")
        return [*metadata, ("x-by", self.name)]

    def on_receive(self, message):
        self.seen.append(f"{self.name} receives {message.decode()}")
        return message + self.name.encode()

    def on_trailers(self, status, metadata):
        self.seen.append(f"{self.name} trailers {status.code.name}")
        return [*metadata, ("x-end", self.name)]

    def on_close(self, status):
        self.seen.append(f"{self.name} closed {status.code.name}")


def own(start):
    """Return the argument of a channel whose filter of type OWN is this function."""
    return {OWN: FilterType(lambda settings, context: Starts(start))}


def recorded(seen):
    """Return the argument of a channel whose filters of type OWN follow their calls under their names."""
    return {OWN: FilterType(lambda settings, context: Starts(lambda call: Recorded(context.name, seen)))}


def after(seconds, result=None):
    """Return the wait of a filter, with its result."""

    async def step():
        await trio.sleep(seconds)
        return result

    return Wait(step)


def listen(mesh, *filters):
    """Put these filters into the mesh's listener; names are filters of type OWN."""
    entries = [xds.custom_filter(each, OWN) if isinstance(each, str) else each for each in filters]
    mesh.plane.put(xds.listener("shop", routes="routes", filters=entries))


def keep_metadata(mesh):
    """Have the hosts keep the metadata of the calls that reach them, in the list that is returned."""
    seen = []

    async def keep(call):
        seen.append(call.metadata)
        async for message in call:
            await call.send(message)

    for server in mesh.servers.values():
        server.fallback = keep
    return seen


async def failure(channel, **more):
    """Return the status of a call that has to fail."""
    with pytest.raises(RpcError) as caught:
        await ask(channel, **{"timeout": 5} | more)
    return replace(caught.value.status, note="")  # which names the resource of the route
