"""The control plane of the scale runs: each line on stdin is a list of resources, answered once they are accepted.

The answer ends with how many bytes of responses have been sent since the beginning.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from typing import Any

import trio

from trxds.resources import protos
from trxds.resources.types import RESOURCE_TYPES
from trxds.server.server_call import Call
from trxds.testing import ManagementServer, serve


@lru_cache(4)
def packed(line: str) -> dict[bytes, Any]:
    """Messages by their bytes; known from last time, if two lists take turns."""
    messages = map(protos.from_json, json.loads(line))
    return {message.SerializeToString(): message for message in messages}


class Counting(ManagementServer):
    """It counts the bytes that it sends; framing and HTTP/2 add little, and compress nothing."""

    sent = 0

    async def handle(self, call: Call) -> None:
        send = call.send

        async def count(message: bytes) -> bool:
            self.sent += len(message)
            return await send(message)

        call.send = count  # type: ignore[method-assign,assignment]  # of this call only
        await super().handle(call)


async def main() -> None:
    plane = Counting()
    async with serve(plane.handlers) as server:
        print(server.address, flush=True)
        there: dict[bytes, Any] = {}
        while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            # What is there already is not sent again, so nobody would accept it.
            news = [each for key, each in packed(line).items() if key not in there]
            there = packed(line)
            plane.put(*news)
            for url in dict.fromkeys(each.type_url for each in news) if plane.streams else ():
                await plane.wait_for_ack(RESOURCE_TYPES[url].kind)
            print("done", plane.sent, flush=True)


trio.run(main)
