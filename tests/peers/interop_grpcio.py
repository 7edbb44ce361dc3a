"""gRPC's interop test service on grpcio, in a process of its own: prints its port, serves until stdin is closed.

    interop_grpcio.py [--host HOST] [--port PORT] [--id SERVER_ID] [--tls CHAIN KEY]

A grpcio server cannot see whether a request came compressed, so it has all features but CompressedRequest.
"""

import argparse
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from xds.data.orca.v3.orca_load_report_pb2 import OrcaLoadReport
from xds.service.orca.v3.orca_pb2 import OrcaLoadReportRequest

from trxds.interop import protos

INITIAL, TRAILING = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"
LOAD = "endpoint-load-metrics-bin"


class TestService:
    def __init__(self, server_id):
        self.id = server_id
        self.load = OrcaLoadReport()
        self.changed = threading.Condition()

    def EmptyCall(self, request, context):
        return protos.Empty()

    def UnaryCall(self, request, context):
        trailing = echo(context)
        if request.HasField("orca_per_query_report"):
            trailing.append((LOAD, report(request.orca_per_query_report).SerializeToString()))
        context.set_trailing_metadata(trailing)
        end_as_asked(request, context)
        compress_as_asked(request.response_compressed, context)
        server_id = self.id if request.fill_server_id else ""
        return protos.SimpleResponse(payload=zeros(request.response_size), server_id=server_id)

    def StreamingOutputCall(self, request, context):
        yield from self.FullDuplexCall(iter([request]), context)

    def StreamingInputCall(self, requests, context):
        total = sum(len(request.payload.body) for request in requests)
        return protos.StreamingInputCallResponse(aggregated_payload_size=total)

    def FullDuplexCall(self, requests, context):
        context.set_trailing_metadata(echo(context))
        for request in requests:
            end_as_asked(request, context)
            if request.HasField("orca_oob_report"):
                self.say_load(report(request.orca_oob_report))
            for wanted in request.response_parameters:
                compress_as_asked(wanted.compressed, context)
                time.sleep(wanted.interval_us / 1e6)
                yield protos.StreamingOutputCallResponse(payload=zeros(wanted.size))

    def say_load(self, load):
        with self.changed:
            self.load = load
            self.changed.notify_all()

    def StreamCoreMetrics(self, request, context):
        """OpenRcaService: the load, as often as asked for."""
        period = request.report_interval.ToNanoseconds() / 1e9
        while context.is_active():
            yield self.load
            with self.changed:
                self.changed.wait(period)


def zeros(size):
    return protos.Payload(body=bytes(size))


def echo(context):
    said = dict(context.invocation_metadata())
    if INITIAL in said:
        context.send_initial_metadata([(INITIAL, said[INITIAL])])
    return [(TRAILING, said[TRAILING])] if TRAILING in said else []


def end_as_asked(request, context):
    if request.HasField("response_status"):
        codes = {code.value[0]: code for code in grpc.StatusCode}
        context.abort(codes[request.response_status.code], request.response_status.message)


def compress_as_asked(wanted, context):
    if not wanted.value:
        context.disable_next_message_compression()


def report(load):
    return OrcaLoadReport(
        cpu_utilization=load.cpu_utilization,
        mem_utilization=load.memory_utilization,
        request_cost=load.request_cost,
        utilization=load.utilization,
    )


def handlers(service):
    kinds = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }
    made = {}
    for method in protos.TEST_SERVICE.methods:
        if hasattr(service, method.name):
            make = kinds[method.client_streaming, method.server_streaming]
            parse = getattr(protos, method.input_type.name).FromString
            made[method.name] = make(getattr(service, method.name), parse, lambda reply: reply.SerializeToString())
    return made


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--id", default="grpcio")
    options.add_argument("--tls", nargs=2, type=Path)
    asked = options.parse_args()
    service = TestService(asked.id)
    server = grpc.server(ThreadPoolExecutor(16), compression=grpc.Compression.Gzip)
    load_reports = grpc.unary_stream_rpc_method_handler(
        service.StreamCoreMetrics, OrcaLoadReportRequest.FromString, lambda reply: reply.SerializeToString()
    )
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler("grpc.testing.TestService", handlers(service)),
            grpc.method_handlers_generic_handler(
                "xds.service.orca.v3.OpenRcaService", {"StreamCoreMetrics": load_reports}
            ),
        ]
    )
    where = f"{asked.host}:{asked.port}"
    if asked.tls:
        chain, key = (path.read_bytes() for path in asked.tls)
        port = server.add_secure_port(where, grpc.ssl_server_credentials([(key, chain)]))
    else:
        port = server.add_insecure_port(where)
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(0).wait()


if __name__ == "__main__":
    main()
