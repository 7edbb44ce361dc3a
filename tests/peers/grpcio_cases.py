"""A grpcio client in a process of its own: cases of `random_mesh.py` as JSON on stdin, what came of them on stdout.

The bootstrap comes by the environment. For each case, call and repetition it says code, reply and `set-cookie`.
"""

import base64
import json
import sys
import time

import grpc

PATIENCE = 30  # seconds for one call, connecting included


def main():
    json.dump([play(**case) for case in json.load(sys.stdin)], sys.stdout)


def play(target, calls, times, warm):
    with grpc.insecure_channel(target) as channel:
        for _ in range(6 if warm else 0):
            outcome(channel, "/warm/Up", [])
            time.sleep(0.02)  # the other hosts get connected
        return [[outcome(channel, **call) for _ in range(times)] for call in calls]


def outcome(channel, path, metadata):
    pairs = [(key, base64.b64decode(value) if key.endswith("-bin") else value) for key, value in metadata]
    try:
        reply, call = channel.unary_unary(path).with_call(b"x", metadata=pairs, timeout=PATIENCE)
    except grpc.RpcError as error:
        return error.code().name, error.details(), []
    return "OK", reply.decode(), [value for key, value in call.initial_metadata() if key == "set-cookie"]


if __name__ == "__main__":
    main()
