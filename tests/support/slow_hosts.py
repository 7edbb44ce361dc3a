"""Hosts that answer late."""

import trio


def slow(mesh, seconds):
    """Let every host answer after so many seconds."""
    for address, server in mesh.servers.items():

        async def echo(call, address=address):
            async for _ in call:
                await trio.sleep(seconds)
                await call.send(address.encode())

        server.fallback = echo
