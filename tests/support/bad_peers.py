"""Peers that talk nonsense, and what is asked of the errors that come of it."""

from contextlib import asynccontextmanager, suppress

import h2.config
import h2.connection
import h2.events
import pytest
import trio
from support.mesh import PLANE

import trxds
from trxds import RpcError
from trxds.testing import MemoryNetwork
from trxds.testing import resources as xds

GARBAGE = {"HTTP/1": b"HTTP/1.1 400 Bad Request\r\n\r\n", "noise": b"\x00\x01garbage" * 10}


@asynccontextmanager
async def listening(network, address, talk):
    """`await talk(stream)` with everybody who connects to that address."""

    async def until_gone(stream):
        with suppress(trio.BrokenResourceError):
            await talk(stream)

    async def accept(listener):
        async with trio.open_nursery() as talks:
            while True:
                talks.start_soon(until_gone, await listener.accept())

    async with network.listen(address) as listener, trio.open_nursery() as nursery:
        nursery.start_soon(accept, listener)
        yield address
        nursery.cancel_scope.cancel()


def says(data):
    """A peer that has its say and reads on."""

    async def talk(stream):
        await stream.send_all(data)
        while await stream.receive_some():
            pass

    return talk


def website(status, attempts=None):
    """An HTTP/2 server that has never heard of gRPC; it notes in `attempts` which attempt each request says it is."""

    async def talk(stream):
        server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        server.initiate_connection()
        await stream.send_all(server.data_to_send())
        while data := await stream.receive_some():
            for event in server.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    if attempts is not None:
                        attempts.append(dict(event.headers).get(b"grpc-previous-rpc-attempts"))
                    server.send_headers(event.stream_id, [(":status", status), ("content-type", "text/html")])
                    server.send_data(event.stream_id, b"<html>Nothing here.</html>", end_stream=True)
            await stream.send_all(server.data_to_send())

    return talk


@asynccontextmanager
async def channel_to_plane(talk):
    """A channel whose control plane talks like that."""
    network = MemoryNetwork()
    channel = trxds.open_channel("xds:///shop", bootstrap=xds.bootstrap(PLANE), network=network)
    async with listening(network, PLANE, talk), channel as opened:
        yield opened


async def failure(call, *, within=0):
    """The status of a call that fails, in so many seconds."""
    began = trio.current_time()
    with pytest.raises(RpcError) as failed:
        await call
    assert trio.current_time() - began == pytest.approx(within, abs=0.2)
    return failed.value.status


def names(message, *parts):
    """The message has all of these; what is missing is shown."""
    assert [part for part in parts if part not in message] == [], message
