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


async def test_a_report_has_each_service_of_a_cluster_whose_service_has_changed(autojump_clock):
    """The C++ client says the one without a name first, for which that of the other would be taken."""
    plane = ManagementServer()
    services = ["", "old"]
    stats = [{"cluster_name": "cart", "cluster_service_name": service} for service in services]
    async with plane.serve() as address, trxds.open_channel(f"ipv4:{address}") as channel:
        method = channel.method(load.PATH, client_streaming=True, server_streaming=True)
        async with method.open() as call:
            await call.send(protos.LoadStatsRequest(node={"id": "C++"}).SerializeToString())
            await call.receive()
            await call.send(protos.LoadStatsRequest(cluster_stats=stats).SerializeToString())
            report = await plane.load.next_report()
    assert [each.cluster_service_name for each in report.stats] == services
    assert report.clusters["cart"].cluster_service_name == "old"
