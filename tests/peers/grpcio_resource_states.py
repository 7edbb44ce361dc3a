"""A grpcio client in a process of its own: what it makes of the resources that its targets need, by CSDS (A40).

The bootstrap comes by the environment; targets, and the type of resources and their number, as JSON on stdin. It ends
when so many are judged, or when no further one was for a while, because a refused cluster leads to no endpoints. On
stdout it says name, state and error of each.
"""

import json
import os
import sys
import time

import grpc
from envoy.admin.v3.config_dump_shared_pb2 import ClientResourceStatus
from envoy.service.status.v3.csds_pb2 import ClientStatusResponse
from grpc._cython import cygrpc

PATIENCE = 20  # seconds for the first one
QUIET = 2  # seconds without another
PAUSE = 0.1


def main():
    order = json.load(sys.stdin)
    channels = [grpc.insecure_channel(target) for target in order["targets"]]
    for channel in channels:
        channel.subscribe(lambda state: None, try_to_connect=True)
    states = []
    deadline = time.monotonic() + PATIENCE
    while len(states) < order["resources"] and time.monotonic() < deadline:
        time.sleep(PAUSE)
        before, states = len(states), judged(order["type"])
        if len(states) > before:
            deadline = time.monotonic() + QUIET
    json.dump(states, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # a hundred channels take longer to close than to judge


def judged(type_url):
    reply = ClientStatusResponse.FromString(cygrpc.dump_xds_configs())
    found = [each for config in reply.config for each in config.generic_xds_configs if each.type_url == type_url]
    states = [(each.name, ClientResourceStatus.Name(each.client_status), each.error_state.details) for each in found]
    return [each for each in states if each[1] in ("ACKED", "NACKED")]


if __name__ == "__main__":
    main()
