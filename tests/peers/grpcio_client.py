"""A grpcio client in a process of its own: calls as JSON on stdin, what came of them as JSON on stdout.

The bootstrap comes by the environment. Run by `test_grpcio_client.py`; grpcio's threads never meet Trio.
"""

import json
import sys

import grpc

PATIENCE = 20  # seconds for one call, connecting included


def main():
    order = json.load(sys.stdin)
    with grpc.insecure_channel(order["target"]) as channel:
        json.dump([play(channel, **call) for call in order["calls"]], sys.stdout)


def play(channel, path, kind="unary", messages=("",), metadata=()):
    requests = [message.encode() for message in messages]
    options = {"metadata": [tuple(pair) for pair in metadata], "timeout": PATIENCE, "wait_for_ready": True}
    try:
        if kind in ("unary", "client_stream"):
            begin = channel.unary_unary if kind == "unary" else channel.stream_unary
            reply, call = begin(path).with_call(requests[0] if kind == "unary" else iter(requests), **options)
            replies = [reply]
        else:
            begin = channel.unary_stream if kind == "server_stream" else channel.stream_stream
            call = begin(path)(requests[0] if kind == "server_stream" else iter(requests), **options)
            replies = list(call)
    except grpc.RpcError as error:
        return {"error": f"{error.code()}: {error.details()}"}
    return {"replies": [reply.decode() for reply in replies], "initial": [[k, v] for k, v in call.initial_metadata()]}


if __name__ == "__main__":
    main()
