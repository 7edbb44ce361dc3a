"""The server of the streams: grpcio; it counts in messages of 100 bytes, counts messages, and echoes them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent import futures

import grpc
from measure import PAYLOAD


class Streams(grpc.GenericRpcHandler):
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        match handler_call_details.method.rpartition("/")[2]:
            case "Receive":
                return grpc.unary_stream_rpc_method_handler(count)
            case "Send":
                return grpc.stream_unary_rpc_method_handler(lambda requests, context: b"%d" % sum(1 for _ in requests))
            case _:
                return grpc.stream_stream_rpc_method_handler(lambda requests, context: requests)


def count(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    for _ in range(int(request)):
        yield PAYLOAD


server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Streams()])
print(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}", flush=True)
server.start()
sys.stdin.read()  # until the bench closes the pipe
server.stop(None)
