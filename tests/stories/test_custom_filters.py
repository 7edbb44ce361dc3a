"""A program's own HTTP filters, from a listener to the calls that they filter."""

from support.mesh import Mesh, ask

from trxds.filters import FilterStep, FilterType
from trxds.testing import resources as xds

TENANT = "my.pkg.Tenant"


class Tenant:
    """Adds a header to each call."""

    def __init__(self, settings, context):
        self.header, self.value = settings["header"], settings.get("value", "?")

    def start(self, call):
        call.metadata = [*call.metadata, (self.header, self.value)]

    def explain(self, call):
        self.start(call)
        return FilterStep(f"adds {self.header}")


class Starts:
    """Calls a function for each call."""

    def __init__(self, start):
        self.start = start

    def __call__(self, settings, context):
        return self


def listen(mesh, *filters):
    mesh.plane.put(xds.listener("shop", routes="routes", filters=filters))


def by(start, *filters):
    """Return channel arguments with one filter that does this, and put it into the mesh's listener."""
    return {"http_filters": {"my.pkg.Own": FilterType(Starts(start))}}


def sees_metadata(mesh):
    """Have the hosts answer with the metadata that reached them."""
    seen = []

    async def note(call):
        seen.append(call.metadata)
        async for message in call:
            await call.send(message)

    for server in mesh.servers.values():
        server.fallback = note
    return seen


async def test_a_filter_adds_a_header_by_its_configuration(autojump_clock):
    async with Mesh.run(1) as mesh:
        seen = sees_metadata(mesh)
        listen(mesh, xds.custom_filter("tenant", TENANT, header="x-tenant", value="anna"))
        async with mesh.channel(http_filters={TENANT: FilterType(Tenant)}) as channel:
            await ask(channel, metadata=[("user", "7")])
        assert [(each.first("user"), each.first("x-tenant")) for each in seen] == [("7", "anna")]
