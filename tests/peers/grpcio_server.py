"""A grpcio server in a process of its own: prints its address, serves until stdin is closed.

unary           the request, reversed
server_stream   the request, three times
client_stream   all requests, joined
bidi            each request, as it comes
gzip, deflate   the request, compressed so; the trailing metadata has its size
flaky           fails with what "fail-with" says while fewer attempts came before than "fail-times" says
rich            fails with a google.rpc.Status of two details
who             the client's authorization, or nothing
set_health      its health, of the whole server, is from now on what the request names

With arguments it speaks TLS: the files of its certificate chain and its key, and with a third one, of
the roots, it wants a certificate of its clients.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

CODES = {code.name: code for code in grpc.StatusCode}


def repeat(request, context):
    context.set_trailing_metadata([("kind", "server_stream")])
    for _ in range(3):
        yield request


def chat(requests, context):
    context.send_initial_metadata([("kind", "bidi")])
    yield from requests


def compressed_by(compression):
    def handler(request, context):
        context.set_trailing_metadata([("size", str(len(request)))])
        context.set_compression(compression)
        return request

    return grpc.unary_unary_rpc_method_handler(handler)


def flaky(request, context):
    said = dict(context.invocation_metadata())
    before = int(said.get("grpc-previous-rpc-attempts", 0))
    if before < int(said["fail-times"]):
        context.set_trailing_metadata([("grpc-retry-pushback-ms", said["pushback"])] if "pushback" in said else [])
        context.abort(CODES[said["fail-with"]], f"after {before}")
    return str(before).encode()


def rich(request, context):
    details = [error_details_pb2.ErrorInfo(reason="SOLD_OUT"), error_details_pb2.RetryInfo()]
    status = status_pb2.Status(code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], message="no more of them")
    for each in details:
        status.details.add().Pack(each)
    context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, status.message)


def who(request, context):
    return dict(context.invocation_metadata()).get("authorization", "").encode()


def add_port(server, files):
    if not files:
        return server.add_insecure_port("127.0.0.1:0")
    chain, key, *roots = files
    credentials = grpc.ssl_server_credentials([(key, chain)], *roots, require_client_auth=bool(roots))
    return server.add_secure_port("127.0.0.1:0", credentials)


def main():
    servicer = health.HealthServicer()

    def set_health(request, context):
        servicer.set("", health_pb2.HealthCheckResponse.ServingStatus.Value(request.decode()))
        return b""

    handlers = {
        "unary": grpc.unary_unary_rpc_method_handler(lambda request, _: request[::-1]),
        "server_stream": grpc.unary_stream_rpc_method_handler(repeat),
        "client_stream": grpc.stream_unary_rpc_method_handler(lambda requests, _: b"".join(requests)),
        "bidi": grpc.stream_stream_rpc_method_handler(chat),
        "gzip": compressed_by(grpc.Compression.Gzip),
        "deflate": compressed_by(grpc.Compression.Deflate),
        "flaky": grpc.unary_unary_rpc_method_handler(flaky),
        "rich": grpc.unary_unary_rpc_method_handler(rich),
        "who": grpc.unary_unary_rpc_method_handler(who),
        "set_health": grpc.unary_unary_rpc_method_handler(set_health),
    }
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(8), options=options)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("peer.Echo", handlers)])
    for service, method in (("helloworld.Greeter", "SayHello"), ("shop.Cart", "Add")):  # those of README's example
        echo = grpc.unary_unary_rpc_method_handler(lambda request, _: request)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {method: echo})])
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = add_port(server, [Path(name).read_bytes() for name in sys.argv[1:]])
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    server.stop(0).wait()


if __name__ == "__main__":
    main()
