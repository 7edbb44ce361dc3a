"""The hosts of a random history: servers that run, are down, or accept connections and say nothing."""

from __future__ import annotations

from functools import partial

import trio

from trxds.testing import Server

from .history_planes import is_listening, until_free


class Host:
    """A server, or a listener in its place that says nothing. `nursery` runs the listener."""

    def __init__(self, server: Server, nursery: trio.Nursery) -> None:
        self._server = server
        self._nursery = nursery
        self._silence: trio.CancelScope | None = None

    @property
    def address(self) -> str:
        return self._server.address

    async def become(self, state: str) -> None:
        """Be "up", "down" or "silent" from now on; if it was not that before, its connections end."""
        if state != "silent" and self._silence is not None:
            self._silence.cancel()
            self._silence = None
        if state != "up":
            self._server.stop()
        elif not is_listening(self._server):
            await until_free(self._server.restart)
        if state == "silent" and self._silence is None:
            address, _, port = self.address.rpartition(":")
            (listener,) = await until_free(partial(trio.open_tcp_listeners, int(port), host=address))
            self._silence = await self._nursery.start(say_nothing, listener)


async def say_nothing(listener: trio.SocketListener, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
    """Accept connections, and drop them when the scope is cancelled."""

    async def hold(stream: trio.SocketStream) -> None:
        async with stream:
            await trio.sleep_forever()

    with trio.CancelScope() as scope:
        task_status.started(scope)
        await trio.serve_listeners(hold, [listener])
