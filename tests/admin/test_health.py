"""Health of a program that is a client."""

import trio
from support.raw import call, open_call

import trxds.admin
from trxds import StatusCode
from trxds.admin.health import SERVICE
from trxds.testing import MemoryNetwork

ADMIN = "127.0.0.1:15000"
SERVING, SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x03"
CART = b"\x0a\x04cart"  # HealthCheckRequest(service="cart")


async def test_the_health_service_reports_serving(autojump_clock):
    network = MemoryNetwork()
    async with trxds.admin.serve(address=ADMIN, network=network):
        replies, status = await call(network, ADMIN, f"{SERVICE}/Check", b"")
    assert (replies, status.code) == ([SERVING], StatusCode.OK)


async def test_the_health_service_does_not_know_other_services(autojump_clock):
    network = MemoryNetwork()
    async with trxds.admin.serve(address=ADMIN, network=network):
        replies, status = await call(network, ADMIN, f"{SERVICE}/Check", CART)
    assert (replies, status.code) == ([], StatusCode.NOT_FOUND)


async def test_a_health_watch_stays_open(autojump_clock):
    network = MemoryNetwork()
    async with trxds.admin.serve(address=ADMIN, network=network):
        for request, answer in ((b"", SERVING), (CART, SERVICE_UNKNOWN)):
            async with open_call(network, ADMIN, f"{SERVICE}/Watch") as stream:
                await stream.send(request, end=True)
                assert await stream.receive() == answer
                with trio.move_on_after(3600) as waiting:
                    await stream.receive()
                assert waiting.cancelled_caught
