"""Control planes that others wrote, each in a program of tests/peers that reads snapshots as JSON lines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

from trxds.testing.resources import Resource

from .peer_programs import Peer


class Plane:
    """A control plane that serves one snapshot to everybody."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.address = peer.address
        self.version = 0
        self._since = 0  # the number of events before its snapshot was given to it

    async def serve(self, *resources: Resource) -> None:
        """Have it serve these resources and no others; returns when its cache has them."""
        assert self._peer.process.stdin is not None
        self.version += 1
        self._since = len(self._peer.events)
        await self._peer.process.stdin.send_all(json.dumps(resources).encode() + b"\n")
        await self._peer.wait_for(lambda event: event.get("snapshot") == self.version)

    def requests(self) -> list[dict[str, Any]]:
        """All that clients have asked for so far, and answered."""
        return [event["request"] for event in self._peer.events if "request" in event]

    async def wait_for_request(self, type_url: str, *, refused: bool) -> None:
        """Wait for an ACK or a NACK of that type, of those after the present snapshot was given to be served."""

        def wanted(event: dict[str, Any]) -> bool:
            request = event.get("request")
            return request is not None and request["type_url"] == type_url and bool(request["error"]) is refused

        await self._peer.wait_for(wanted, since=self._since)

    async def kill(self) -> None:
        """Have it end without a word."""
        self._peer.process.kill()
        await self._peer.process.wait()

    def nacks(self) -> list[dict[str, Any]]:
        return [request for request in self.requests() if request["error"]]


StartPlane: TypeAlias = Callable[..., AbstractAsyncContextManager[Plane]]
"""Runs a control plane with the flags of its program until the block is left."""


@asynccontextmanager
async def plane(program: AbstractAsyncContextManager[Peer]) -> AsyncIterator[Plane]:
    async with program as peer:
        yield Plane(peer)
