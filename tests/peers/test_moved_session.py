"""A session is moved from one real grpcio host to another, while a stream stays on the first one."""

from __future__ import annotations

import trio
from support.grpcio import grpcio_server

import trxds
from trxds.testing import ManagementServer, resources

SAY_HELLO = "/helloworld.Greeter/SayHello"


async def met(caller: trxds.MethodFactory) -> str:
    """The host that answers a call."""
    async with caller.method(SAY_HELLO).open(b"x") as call:
        await call.receive()
        return call.peer


async def test_a_session_leaves_a_draining_grpcio_host_by_a_handover() -> None:
    plane = ManagementServer()
    async with grpcio_server() as first, grpcio_server() as second, plane.serve() as address:
        hosts = {first, second}
        plane.put(
            resources.listener("greeter", routes="r", filters=[resources.stateful_session()]),
            resources.routes("r", resources.route("c")),
            resources.cluster("c", override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"]),
            resources.endpoints("c", resources.locality(*hosts)),
        )
        with trio.fail_after(60):
            async with (
                trxds.open_channel("xds:///greeter", bootstrap=resources.bootstrap(address)) as channel,
                channel.session() as session,
            ):
                before = await met(session)
                plane.put(resources.endpoints("c", resources.locality(*hosts, health={before: "DRAINING"})))
                assert (await session.wait_draining()).host.host == before
                assert await met(session) == before
                async with session.moving() as (old, new):
                    assert {await met(old), await met(new)} == {before, new.host} == hosts
                assert {await met(session) for _ in range(5)} == {new.host}
