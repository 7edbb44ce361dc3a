"""Two hosts and a control plane on loopback, by Trio in a thread of their own: for programs that do not run Trio."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import trio
from anyio.from_thread import start_blocking_portal

from trxds import StatusCode
from trxds.testing import ManagementServer, serve
from trxds.testing import resources as xds

from .threads import PATIENCE


class ShopOnLoopback:
    """`began` and `ended` count the calls of `/shop.Cart/Hang`, which answers nothing."""

    def __init__(self):
        self.plane = ManagementServer()
        self.began = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)

    @classmethod
    @contextmanager
    def run(cls):
        world = cls()
        with start_blocking_portal("trio") as portal:
            world.portal = portal
            served, leave = portal.start_task(world.serve)
            yield world
            portal.call(leave.set)
            served.result(PATIENCE)

    def options(self, more):
        """The arguments of `open_channel` besides the target."""
        return {"bootstrap": xds.bootstrap(self.address)} | more

    async def serve(self, task_status):
        leave = trio.Event()
        hosts = serve(fallback=self.answer), serve(fallback=self.answer)
        async with hosts[0] as one, hosts[1] as two, self.plane.serve() as self.address:
            self.hosts = {one.address, two.address}
            self.plane.put(
                xds.listener("shop", routes="r", filters=[xds.stateful_session()]),
                xds.routes("r", xds.route("cart")),
                xds.cluster("cart"),
                xds.endpoints("cart", xds.locality(*self.hosts)),
            )
            task_status.started(leave)
            await leave.wait()

    async def answer(self, call):
        match call.path.rpartition("/")[2]:
            case "Echo":
                async for message in call:
                    await call.send(message)
            case "Sum":
                await call.send(b"%d" % sum([int(message) async for message in call]))
            case "First":
                await call.send(await call.receive())
            case "Fail":
                call.abort(StatusCode.NOT_FOUND, "no such cart")
            case "FailLater":
                await call.send(b"one")
                call.abort(StatusCode.DATA_LOSS, "the rest is gone")
            case "FailAfterTwo":
                await call.send(b"one")
                await call.send(b"two")
                call.abort(StatusCode.DATA_LOSS, "the rest is gone")
            case "Metadata":
                call.set_trailing_metadata([("left", "7")])
                await call.send_initial_metadata([("right", "8")])
                await call.send(str(call.metadata.first("user")).encode())
            case "Two":
                async for message in call:
                    await call.send(message)
                    await call.send(message)
            case "None":
                call.set_trailing_metadata([("left", "7")])
                await call.send_initial_metadata([("right", "8")])
            case "Hang":
                self.began.release()
                try:
                    await trio.sleep_forever()
                finally:
                    self.ended.release()

    def put(self, *resources):
        """Have the control plane send these, from any thread."""
        self.portal.call(self.plane.put, *resources)

    def wait(self, semaphore):
        assert semaphore.acquire(timeout=PATIENCE)
