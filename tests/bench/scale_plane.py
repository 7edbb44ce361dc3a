"""The control plane of the scale runs: each line on stdin is a list of resources, answered once they are accepted."""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from typing import Any

import trio

from trxds.resources import protos
from trxds.resources.types import RESOURCE_TYPES
from trxds.testing import ManagementServer


@lru_cache(4)
def packed(line: str) -> list[Any]:
    """Known from last time, if two lists take turns."""
    return [protos.from_json(each) for each in json.loads(line)]


async def main() -> None:
    plane = ManagementServer()
    async with plane.serve() as address:
        print(address, flush=True)
        while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            resources = packed(line)
            plane.put(*resources)
            for url in dict.fromkeys(each.type_url for each in resources) if plane.streams else ():
                await plane.wait_for_ack(RESOURCE_TYPES[url].kind)
            print("done", flush=True)


trio.run(main)
