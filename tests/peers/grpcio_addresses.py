"""A grpcio server at the addresses that its arguments name, port 0 for a free one.

Prints what it listens at, one a line, and serves until stdin is closed. `/peer.Where/authority` answers with
the call's :authority; `/peer.Where/address` with the address at which the server was reached.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc


def authority(request, context):
    return context._rpc_event.call_details.host


def handlers(address):
    return grpc.method_handlers_generic_handler(
        "peer.Where",
        {
            "authority": grpc.unary_unary_rpc_method_handler(authority),
            "address": grpc.unary_unary_rpc_method_handler(lambda request, context: address.encode()),
            "late": grpc.unary_unary_rpc_method_handler(lambda request, context: context.is_active() and wait(context)),
        },
    )


def wait(context):
    import time

    while context.is_active():
        time.sleep(0.01)
    return b""


def listen(address):
    server = grpc.server(ThreadPoolExecutor(4))
    port = server.add_insecure_port(address)
    real = address[: -len("0")] + str(port) if address.endswith(":0") else address
    server.add_generic_rpc_handlers((handlers(real),))
    server.start()
    print(real, flush=True)
    return server


def main():
    servers = [listen(address) for address in sys.argv[1:]]
    sys.stdin.buffer.read()
    for server in servers:
        server.stop(None).wait()


if __name__ == "__main__":
    main()
