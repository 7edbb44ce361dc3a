"""A grpcio server in a process of its own: prints its address, serves until stdin is closed.

unary           the request, reversed
server_stream   the request, three times
client_stream   all requests, joined
bidi            each request, as it comes

With arguments it speaks TLS: the files of its certificate chain and its key, and with a third one, of
the roots, it wants a certificate of its clients.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc


def repeat(request, context):
    context.set_trailing_metadata([("kind", "server_stream")])
    for _ in range(3):
        yield request


def chat(requests, context):
    context.send_initial_metadata([("kind", "bidi")])
    yield from requests


def add_port(server, files):
    if not files:
        return server.add_insecure_port("127.0.0.1:0")
    chain, key, *roots = files
    credentials = grpc.ssl_server_credentials([(key, chain)], *roots, require_client_auth=bool(roots))
    return server.add_secure_port("127.0.0.1:0", credentials)


def main():
    handlers = {
        "unary": grpc.unary_unary_rpc_method_handler(lambda request, _: request[::-1]),
        "server_stream": grpc.unary_stream_rpc_method_handler(repeat),
        "client_stream": grpc.stream_unary_rpc_method_handler(lambda requests, _: b"".join(requests)),
        "bidi": grpc.stream_stream_rpc_method_handler(chat),
    }
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(8), options=options)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("peer.Echo", handlers)])
    port = add_port(server, [Path(name).read_bytes() for name in sys.argv[1:]])
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    server.stop(0).wait()


if __name__ == "__main__":
    main()
