"""A channel of grpcio that connects without a call; prints each of its states in a line, until stdin ends.

grpcio_states.py TARGET
"""

import sys

import grpc

with grpc.insecure_channel(sys.argv[1]) as channel:
    channel.subscribe(lambda state: print(state.name, flush=True), try_to_connect=True)
    sys.stdin.read()
