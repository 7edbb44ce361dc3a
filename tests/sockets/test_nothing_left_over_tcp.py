"""No socket is left, over real TCP, wherever the program is cancelled."""

import pytest
import trio
from support.cancelling import CancelAtStep
from support.mesh import bidi

import trxds
from trxds.testing import ManagementServer, serve
from trxds.testing import resources as xds

EVERY = 3  # steps between two places that are tried


async def echo(call):
    async for message in call:
        await call.send(message)


async def program(address):
    async with (
        trxds.open_channel("xds:///shop", bootstrap=xds.bootstrap(address)) as channel,
        channel.session() as session,
        bidi(session).open(b"one") as call,
    ):
        await call.receive()
        await call.send(b"two")
        await call.receive()


@pytest.fixture
def sockets(monkeypatch):
    """Collect every socket that is made to connect."""
    made = []
    make = trio.socket.socket

    def noting(*args, **kwargs):
        made.append(make(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(trio.socket, "socket", noting)
    return made


async def test_a_program_that_is_cancelled_anywhere_leaves_no_socket(sockets):
    async with serve(fallback=echo) as one, serve(fallback=echo) as other:
        plane = ManagementServer()
        plane.put(
            xds.listener("shop", routes="routes", filters=[xds.stateful_session()]),
            xds.routes("routes", xds.route("cart")),
            xds.cluster("cart"),
            xds.endpoints("cart", xds.locality(one.address, other.address)),
        )
        async with plane.serve() as address:
            k, ended = 1, False
            while not ended:
                sockets.clear()
                cancel = CancelAtStep(k)
                trio.lowlevel.add_instrument(cancel)
                with cancel.scope:
                    await program(address)
                trio.lowlevel.remove_instrument(cancel)
                assert [socket for socket in sockets if socket.fileno() != -1] == [], f"cancelled at step {k}"
                ended = cancel.steps < k
                k += EVERY
            assert len(sockets) == 3, "the control plane's and two hosts': otherwise nothing was counted"
            assert k > 150
