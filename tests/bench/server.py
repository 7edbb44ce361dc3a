"""The server of all measurements: grpcio, one process, an echo. Prints its address.

python server.py [IP to listen on]
"""

from __future__ import annotations

import sys
from concurrent import futures

import grpc


class Echo(grpc.GenericRpcHandler):
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)


server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Echo()])
ip = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1"
print(f"127.0.0.1:{server.add_insecure_port(f'{ip}:0')}", flush=True)
server.start()
sys.stdin.read()  # until the bench closes the pipe
server.stop(None)
