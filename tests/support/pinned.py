"""The hosts of a channel, and calls that are pinned to one of them."""

from contextlib import asynccontextmanager

from support.mesh import method
from support.plain import hosts_in_memory


async def ask(host, channel, **more):
    """One pinned call; return the address that answers."""
    return (await method(channel).on(host)(b"", **more)).decode()


async def listed(channel):
    return [host async for host in channel.hosts()]


@asynccontextmanager
async def plain(count=3, **options):
    async with hosts_in_memory(count) as mesh, mesh.channel(**options) as channel:
        yield mesh, channel
