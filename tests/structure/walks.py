"""How far two things walk through the runtime: one unary RPC, and one endpoint that EDS adds.

Counted with `sys.setprofile` in the client's thread. The control plane and the servers run in a thread of their own, so
nothing of theirs is counted. Each time that a function begins or is resumed counts as a call. Trio does not always run
tasks in the same order, so a walk is the shortest of several.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import Any

import trio

import trxds
from trxds.lb.policy_node import Node
from trxds.testing import ManagementServer, serve, unary
from trxds.testing import resources as xds

PACKAGE = Path(trxds.__file__).parent
METHOD = "/shop.Cart/Add"
_PUBLISH = "client/dataplane.py:LiveDataPlane.publish"
_STEP = Node._step.__code__


@dataclass
class Walk:
    """What was called, in order."""

    functions: list[str] = field(default_factory=list)  # "transport/client_stream.py:receive"
    steps: int = 0  # of nodes of the policy tree
    task_runs: int = 0  # how often Trio gave any task a turn

    @property
    def files(self) -> set[str]:
        """The files in which anything ran."""
        return {name.partition(":")[0] for name in self.functions}

    @property
    def rooms(self) -> list[str]:
        """The rooms in the order in which they were entered."""
        return [name.partition("/")[0] for name in self.functions]

    @property
    def room_changes(self) -> int:
        """How often the next function was in another room than the one before."""
        return sum(one != other for one, other in zip(self.rooms, self.rooms[1:], strict=False))

    def __str__(self) -> str:
        counts = f"{len(self.functions)} calls, {len(self.files)} files, {self.room_changes} changes of room"
        return f"{counts}, {self.steps} node steps, {self.task_runs} task runs"


class _Runs(trio.abc.Instrument):
    def __init__(self, walk: Walk) -> None:
        self._walk = walk

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._walk.task_runs += 1


@contextmanager
def recording() -> Iterator[Walk]:
    """Record what this thread does from here on, every task of it."""
    walk = Walk()
    names: dict[CodeType, str | None] = {}

    def name_of(code: CodeType) -> str | None:
        path = Path(code.co_filename)
        inside = path.is_relative_to(PACKAGE)
        return f"{path.relative_to(PACKAGE).as_posix()}:{code.co_qualname}" if inside else None

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in names:
            names[code] = name_of(code)
        name = names[code]
        if name is None:
            return
        walk.functions.append(name)
        walk.steps += code is _STEP

    instrument = _Runs(walk)
    trio.lowlevel.add_instrument(instrument)
    sys.setprofile(profile)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        trio.lowlevel.remove_instrument(instrument)


class Mesh:
    """A control plane and hosts in a thread of their own. `do` runs a plain function there."""

    def __init__(self, hosts: int) -> None:
        self.plane = ManagementServer()
        self.addresses: list[str] = []
        self.plane_address = ""
        self._hosts = hosts
        self._ready: SimpleQueue[trio.lowlevel.TrioToken] = SimpleQueue()
        self._thread = threading.Thread(target=trio.run, args=(self._serve,), daemon=True)

    def __enter__(self) -> Mesh:
        self._thread.start()
        self._token = self._ready.get()
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self._scope.cancel)
        self._thread.join()

    def do(self, step: Callable[[], object]) -> None:
        """Run it in the mesh's thread, soon."""
        self._token.run_sync_soon(step)

    async def _serve(self) -> None:
        async def echo(request: bytes, call: Any) -> bytes:
            return request

        async with trio.open_nursery() as nursery, self.plane.serve() as self.plane_address:
            self._scope = nursery.cancel_scope

            async def host(task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
                async with serve({METHOD: unary(echo)}) as server:
                    task_status.started(server.address)
                    await trio.sleep_forever()

            self.addresses = [await nursery.start(host) for _ in range(self._hosts)]
            self.plane.put(
                xds.listener("shop", routes="routes", filters=[xds.stateful_session()]),
                xds.routes("routes", xds.route("cart")),
                xds.cluster("cart"),
            )
            self.put_endpoints(self._hosts - 1)
            self._ready.put(trio.lowlevel.current_trio_token())
            await trio.sleep_forever()

    def put_endpoints(self, number: int) -> None:
        """Have the cluster consist of the first so many hosts."""
        self.plane.put(xds.endpoints("cart", xds.locality(*self.addresses[:number])))


async def unary_rpc(mesh: Mesh) -> Walk:
    """One unary RPC on a channel that is READY, from the caller's `await` to its reply; the least of many."""
    async with trxds.open_channel("xds:///shop", bootstrap=xds.bootstrap(mesh.plane_address)) as channel:
        add = channel.method(METHOD)
        walks = []
        for _ in range(30):
            await add(b"x", timeout=10)
            await trio.sleep(0.02)  # whoever reads in its caller's task has gone back to its own by then
            with recording() as walk:
                await add(b"x", timeout=10)
            walks.append(walk)
    return min(walks, key=lambda walk: len(walk.functions))


async def _over(walk: Walk) -> None:
    """Wait until nothing more happens; a walk that is cut short, on a machine that is busy, would look cheap."""
    seen = 0
    while walk.functions.count(_PUBLISH) < 2 or seen != len(walk.functions):  # the generation's answer, and the host
        seen = len(walk.functions)
        await trio.sleep(0.3)


async def added_endpoint(mesh: Mesh) -> Walk:
    """One endpoint that EDS adds, from its bytes to the picker that has it READY; the least of several."""
    walks = []
    async with trxds.open_channel("xds:///shop", bootstrap=xds.bootstrap(mesh.plane_address)) as channel:
        add = channel.method(METHOD)
        for _ in range(5):
            await add(b"x", timeout=10)
            await trio.sleep(0.1)
            with recording() as walk:
                mesh.do(lambda: mesh.put_endpoints(len(mesh.addresses)))
                await _over(walk)
            walks.append(walk)
            mesh.do(lambda: mesh.put_endpoints(len(mesh.addresses) - 1))
            await trio.sleep(0.1)
    return min(walks, key=lambda walk: len(walk.functions))
