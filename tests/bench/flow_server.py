"""The server of the flow measurements: grpcio; it echoes, and counts in messages of 100 bytes. Prints its address."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent import futures

import grpc
from measure import PAYLOAD

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Flow(grpc.GenericRpcHandler):
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        if handler_call_details.method == "/bench.Flow/Echo":
            return grpc.unary_unary_rpc_method_handler(lambda request, context: request)
        return grpc.unary_stream_rpc_method_handler(count)


def count(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    for _ in range(int(request)):
        yield PAYLOAD


server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Flow()], options=UNLIMITED)
print(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}", flush=True)
server.start()
sys.stdin.read()  # until the bench closes the pipe
server.stop(None)
