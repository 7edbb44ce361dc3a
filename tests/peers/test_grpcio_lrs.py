"""Load reports as grpcio's server gets them: the stream, the node, the counts (A27)."""

import queue
from concurrent import futures
from contextlib import contextmanager

import grpc
import trio

import trxds
from trxds.resources import protos
from trxds.testing import resources as xds
from trxds.testing import serve, unary
from trxds.xds.lrs_stream import PATH as LRS
from trxds.xds.sotw import PATH as ADS

PATIENCE = 60  # seconds for the test, which takes two


class Plane(grpc.GenericRpcHandler):
    """A control plane that answers each type once, and asks for all load every second."""

    def __init__(self, *resources):
        self.load = queue.Queue()
        self._resources = [protos.from_json(resource) for resource in resources]

    def service(self, details):
        if details.method == ADS:
            parse, serialize = protos.DiscoveryRequest.FromString, protos.DiscoveryResponse.SerializeToString
            return grpc.stream_stream_rpc_method_handler(self._discover, parse, serialize)
        if details.method == LRS:
            parse, serialize = protos.LoadStatsRequest.FromString, protos.LoadStatsResponse.SerializeToString
            return grpc.stream_stream_rpc_method_handler(self._report, parse, serialize)
        return None

    def _discover(self, requests, context):
        for request in requests:
            if not request.response_nonce:
                found = [each for each in self._resources if each.type_url == request.type_url]
                yield protos.DiscoveryResponse(version_info="1", type_url=request.type_url, nonce="1", resources=found)

    def _report(self, requests, context):
        self.load.put(next(requests))
        order = protos.LoadStatsResponse(send_all_clusters=True)
        order.load_reporting_interval.seconds = 1
        yield order
        for request in requests:
            self.load.put(request)

    @contextmanager
    def serve(self):
        server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[self])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(None).wait()

    async def hears(self):
        return await trio.to_thread.run_sync(lambda: self.load.get(timeout=PATIENCE))


async def answer(request, call):
    return b"yes"


async def test_grpcio_gets_the_counts_of_a_channel():
    async with serve({"/shop.Cart/Add": unary(answer)}) as host:
        plane = Plane(
            xds.listener("shop", routes="r"),
            xds.routes("r", xds.route("cart")),
            xds.cluster("cart") | xds.load_reports(),
            xds.endpoints("cart", xds.locality(host.address, zone="here")),
        )
        with plane.serve() as address, trio.fail_after(PATIENCE):
            async with trxds.open_channel("xds:///shop", bootstrap=xds.bootstrap(address)) as channel:
                for _ in range(3):
                    assert await channel.method("/shop.Cart/Add")(b"") == b"yes"
                first = await plane.hears()
                issued = succeeded = 0
                while succeeded < 3:  # the calls may be in several reports
                    for stats in (await plane.hears()).cluster_stats:
                        [locality] = stats.upstream_locality_stats
                        assert (stats.cluster_name, locality.locality.zone) == ("cart", "here")
                        issued += locality.total_issued_requests
                        succeeded += locality.total_successful_requests
    assert first.node.id == "trxds-test"
    assert list(first.cluster_stats) == []
    assert (issued, succeeded) == (3, 3)
