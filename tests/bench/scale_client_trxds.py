"""trxds in the scale runs. Arguments: "watch" measures each step; with "silent" hosts at 10.… are in memory."""

from __future__ import annotations

import gc
import sys
import time
from contextlib import AsyncExitStack

import trio
from scale_meter import FIRST, PAYLOAD, allow_many_connections, answer, reading

import trxds
import trxds.preload  # the first RPC is measured without the imports of the xDS client
from trxds.transport.connect import TcpNetwork

SETTINGS = bytes(3) + b"\4" + bytes(5)  # a frame that settles nothing: all that a host has to say to be READY


class LongestStep(trio.abc.Instrument):
    """For how long did one task hold the loop? In CPU time: what other processes do is not our doing.

    `longest` leaves out the interpreter's cyclic garbage collector, which strikes wherever
    something is allocated and takes the longer the more there is; `held` has it in.
    """

    def __init__(self) -> None:
        self._began = self._collected = self._collecting = 0.0
        self.begin()
        gc.callbacks.append(self._note_collector)

    def begin(self) -> None:
        self.longest, self.held, self.by = 0.0, 0.0, ""

    def read(self) -> dict[str, object]:
        """Of all steps since the last reading."""
        read: dict[str, object] = {"longest": self.longest, "held": self.held, "by": self.by}
        self.begin()
        return read

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began, self._collected = time.thread_time(), 0.0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        held = time.thread_time() - self._began
        self.held = max(self.held, held)
        if held - self._collected > self.longest:
            self.longest, self.by = held - self._collected, task.name

    def _note_collector(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._collected += time.thread_time() - self._collecting


class SilentHost(trio.abc.Stream):
    """A connection to a host that costs nothing: it settles, and reads whatever comes."""

    def __init__(self) -> None:
        self._to_say = SETTINGS

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        said, self._to_say = self._to_say, b""
        if not said:
            await trio.sleep_forever()
        return said

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


class SilentHosts(TcpNetwork):
    async def connect(self, address: str) -> trio.abc.Stream:
        return SilentHost() if address.startswith("10.") else await super().connect(address)


async def bare_echoes(address: str, count: int) -> float:
    """Seconds of CPU that one echo costs this side, with nothing but Trio and a socket."""
    host, _, port = address.rpartition(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        before = time.process_time()
        for _ in range(count):
            await stream.send_all(PAYLOAD)
            await stream.receive_some()
        return (time.process_time() - before) / count


async def main(steps: LongestStep | None) -> None:
    print("ready", flush=True)
    async with AsyncExitStack() as stack:
        while True:
            await trio.lowlevel.wait_readable(sys.stdin)
            command, *args = sys.stdin.readline().split()
            before, took = time.perf_counter(), 0.0
            if command == "open":
                network = SilentHosts() if "silent" in sys.argv else None
                channel = await stack.enter_async_context(trxds.open_channel("xds:///bench", network=network))
                await channel.method(FIRST, None, None)(PAYLOAD, wait_for_ready=True)
                took = time.perf_counter() - before
            elif command == "echo":
                took = await bare_echoes(args[0], int(args[1]))
            answer({**reading(), "took": took, **(steps.read() if steps is not None else {})})


allow_many_connections()
watching = LongestStep() if "watch" in sys.argv else None
trio.run(main, watching, instruments=[watching] if watching is not None else [])
