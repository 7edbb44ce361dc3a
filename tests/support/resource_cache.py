"""The lives of a program with a cache of resources on disk: one with a control plane, and the next one without."""

from __future__ import annotations

from contextlib import asynccontextmanager

import trio
from msgspec import structs
from support.mesh import PLANE, ask

from trxds.resources.types import RESOURCE_TYPES
from trxds.xds.cache_file import decode_cache, encode_cache


def down(mesh, *planes):
    for each in planes or (PLANE,):
        mesh.network.refuse(each)
        mesh.network.cut(each)


async def fill(mesh, cache_dir, **more):
    """One life of the program in which the control plane answers, long enough for the cache to be written."""
    async with mesh.channel(cache_dir=cache_dir, **more) as channel:
        await ask(channel)
        await trio.sleep(3)


@asynccontextmanager
async def restarted(mesh, cache_dir, **more):
    """The next life of the program, without a control plane."""
    down(mesh)
    async with mesh.channel(cache_dir=cache_dir, **more) as channel:
        yield channel


async def come_back(mesh):
    """The control plane answers again, and everything has come from it."""
    del mesh.plane.requests[:], mesh.plane.responses[:]
    mesh.network.restore(PLANE)
    await mesh.plane.wait_for_ack("EDS")
    await trio.sleep(1)


def cache_file(cache_dir):
    (file,) = (cache_dir / "trxds-xds-cache").iterdir()
    return file


def cached(cache_dir):
    """The cached resources by kind and name, such as "CDS cart"."""
    found = decode_cache(cache_file(cache_dir).read_bytes())
    return {f"{RESOURCE_TYPES[each.type_url].kind} {each.name}": each for each in found}


def edit(cache_dir, *, age=0.0, values=None):
    """Change the file as only its owner can, with a right checksum: `age` seconds older, and other values."""
    found = decode_cache(cache_file(cache_dir).read_bytes())
    edited = [
        structs.replace(each, current_at=each.current_at - age, value=(values or {}).get(each.name, each.value))
        for each in found
    ]
    cache_file(cache_dir).write_bytes(encode_cache(edited))
