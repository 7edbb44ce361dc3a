"""grpcio in the scale runs: all that it does for xDS is done by threads of the C++ client."""

from __future__ import annotations

import sys
import time

import grpc
from scale_meter import FIRST, PAYLOAD, allow_many_connections, answer, reading

allow_many_connections()
print("ready", flush=True)
channel = None
for line in sys.stdin:
    took = 0.0
    if line == "open\n":
        began = time.perf_counter()
        channel = grpc.insecure_channel("xds:///bench")
        channel.unary_unary(FIRST)(PAYLOAD, wait_for_ready=True)
        took = time.perf_counter() - began
    answer({**reading(), "took": took})
