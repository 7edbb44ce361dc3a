"""The LRS of `trxds.testing.ManagementServer`, for clients of other projects."""

import trxds
from trxds.resources import protos
from trxds.testing import ManagementServer, load


async def test_a_client_may_send_its_node_with_each_report(autojump_clock):
    """As grpc-java does."""
    plane = ManagementServer()
    async with plane.serve() as address, trxds.open_channel(f"ipv4:{address}") as channel:
        method = channel.method(load.PATH, client_streaming=True, server_streaming=True)
        async with method.open() as call:
            for _ in range(3):
                await call.send(protos.LoadStatsRequest(node={"id": "java"}).SerializeToString())
                plane.load.ask(interval=1)
                await call.receive()
    assert [request.node and request.node.id for request in plane.load.requests] == ["java", None, None]
