"""This file serves two hosts and a control plane on loopback, by Trio in a thread of their own."""

from __future__ import annotations

import threading

import pytest
import trio
from anyio.from_thread import start_blocking_portal
from support.threads import PATIENCE

import trxds.sync
from trxds import StatusCode
from trxds.testing import ManagementServer, serve
from trxds.testing import resources as xds


class World:
    """`began` and `ended` count the calls of `/shop.Cart/Hang`, which answers nothing."""

    def __init__(self):
        self.plane = ManagementServer()
        self.began = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)

    def channel(self, **more):
        return trxds.sync.open_channel("xds:///shop", **{"bootstrap": xds.bootstrap(self.address)} | more)

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
            case "Fail":
                call.abort(StatusCode.NOT_FOUND, "no such cart")
            case "FailLater":
                await call.send(b"one")
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


@pytest.fixture
def world():
    made = World()
    with start_blocking_portal("trio") as portal:
        made.portal = portal
        served, leave = portal.start_task(made.serve)
        yield made
        portal.call(leave.set)
        served.result(PATIENCE)


@pytest.fixture
def channel(world):
    with world.channel() as channel:
        yield channel
