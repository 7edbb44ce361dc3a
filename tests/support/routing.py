"""Routes under test: clusters of one host each, and where an RPC comes out.

async with routed(to("a", path="/s/m"), to("b")) as rpcs:
    assert await rpcs.cluster("/s/m") == "a"
"""

from contextlib import asynccontextmanager

from trxds import RpcError
from trxds.testing import resources as xds

from .mesh import Mesh


def to(cluster, *, headers=(), action=None, per_filter=None, **match):
    """One route; to("a", path="/s/m", headers=[...], action={"timeout": "1s"})."""
    where = {**xds.route(cluster)["route"], **(action or {})}
    match = match if match.keys() & {"prefix", "path", "safe_regex"} else {"prefix": "", **match}
    entry = {"match": {**match, "headers": list(headers)}, "route": where}
    return {**entry, "typed_per_filter_config": per_filter} if per_filter else entry


class Rpcs:
    """RPCs through one channel to hosts that stand for their clusters."""

    def __init__(self, mesh, channel, hosts):
        self.mesh = mesh
        self.channel = channel
        self.hosts = hosts  # by cluster

    async def cluster(self, path="/s/m", *, caller=None, wait_for_ready=False, **headers):
        """Where an RPC comes out; headers in the form x_user="7"."""
        metadata = [(key.replace("_", "-"), value) for key, value in headers.items()]
        return await self.with_metadata(metadata, path, caller=caller, wait_for_ready=wait_for_ready)

    async def with_metadata(self, metadata, path="/s/m", *, caller=None, wait_for_ready=False):
        call = (caller or self.channel).method(path)
        host = (await call(b"", metadata=metadata, wait_for_ready=wait_for_ready)).decode()
        return next(name for name, address in self.hosts.items() if address == host)

    async def refusal(self, path="/s/m", **more):
        """The status of an RPC that has to fail."""
        try:
            cluster = await self.cluster(path, **more)
        except RpcError as error:
            return error.status
        raise AssertionError(f"the RPC to {path} came out at cluster {cluster}")


@asynccontextmanager
async def routed(*entries, clusters="abc", sessions=False, **options):
    """Clusters a, b and c of one host each, under these routes."""
    async with Mesh.run(len(clusters), sessions=sessions) as mesh:
        hosts = dict(zip(clusters, mesh.hosts, strict=True))
        for cluster, host in hosts.items():
            mesh.cluster(cluster)
            mesh.endpoints(cluster, [host])
        mesh.route(*entries)
        async with mesh.channel(**options) as channel:
            yield Rpcs(mesh, channel, hosts)
