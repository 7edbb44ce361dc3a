"""grpcio servers that answer every unary call with their names: `python grpcio_named_servers.py NAME ...`.

A line of JSON has their addresses by name. They run until stdin is closed.
"""

import json
import sys
from concurrent import futures

import grpc


class Named(grpc.GenericRpcHandler):
    def __init__(self, name):
        self._reply = name.encode()

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self._reply)


servers = {name: grpc.server(futures.ThreadPoolExecutor(2), handlers=[Named(name)]) for name in sys.argv[1:]}
addresses = {name: f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}" for name, server in servers.items()}
for server in servers.values():
    server.start()
print(json.dumps(addresses), flush=True)
sys.stdin.read()
