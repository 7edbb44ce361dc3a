"""A grpcio server with grpcio-reflection, which has v1alpha only: prints its address, serves until stdin is closed.

Its service is grpc.testing.TestService, with a method of each kind; UnaryCall fails as the request says.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_reflection.v1alpha import reflection

from trxds.interop import protos

CODES = {code.value[0]: code for code in grpc.StatusCode}


def unary(request, context):
    if request.response_status.code:
        context.abort(CODES[request.response_status.code], request.response_status.message)
    return protos.SimpleResponse(payload=request.payload, username=dict(context.invocation_metadata()).get("user", ""))


def output(request, context):
    for each in request.response_parameters:
        yield protos.StreamingOutputCallResponse(payload={"body": bytes(each.size)})


def total(requests, context):
    return protos.StreamingInputCallResponse(aggregated_payload_size=sum(len(each.payload.body) for each in requests))


def talk(requests, context):
    for request in requests:
        yield from output(request, context)


def handler(make, request, response, function):
    return make(function, request_deserializer=request.FromString, response_serializer=response.SerializeToString)


HANDLERS = {
    "UnaryCall": (grpc.unary_unary_rpc_method_handler, protos.SimpleRequest, protos.SimpleResponse, unary),
    "StreamingOutputCall": (
        grpc.unary_stream_rpc_method_handler,
        protos.StreamingOutputCallRequest,
        protos.StreamingOutputCallResponse,
        output,
    ),
    "StreamingInputCall": (
        grpc.stream_unary_rpc_method_handler,
        protos.StreamingInputCallRequest,
        protos.StreamingInputCallResponse,
        total,
    ),
    "FullDuplexCall": (
        grpc.stream_stream_rpc_method_handler,
        protos.StreamingOutputCallRequest,
        protos.StreamingOutputCallResponse,
        talk,
    ),
}


def main():
    server = grpc.server(ThreadPoolExecutor(8))
    service = protos.TEST_SERVICE
    handlers = {name: handler(*parts) for name, parts in HANDLERS.items()}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service.full_name, handlers)])
    reflection.enable_server_reflection([service.full_name, reflection.SERVICE_NAME], server, pool=service.file.pool)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    server.stop(0).wait()


if __name__ == "__main__":
    main()
