"""The echo of server.py by grpcio's asyncio API, grpc.aio: one process, one thread for Python. Prints its address."""

from __future__ import annotations

import asyncio

import grpc


class Echo(grpc.GenericRpcHandler):
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(echo)


async def echo(request: bytes, context: object) -> bytes:
    return request


async def main() -> None:
    server = grpc.aio.server(handlers=[Echo()])
    print(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}", flush=True)
    await server.start()
    await server.wait_for_termination()  # the bench kills it


asyncio.run(main())
