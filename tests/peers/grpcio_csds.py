"""Reads CSDS with grpcio's stubs, in a process of its own: what each method was told, as JSON on stdout."""

import json
import sys

import grpc
from envoy.service.status.v3.csds_pb2 import ClientStatusRequest
from envoy.service.status.v3.csds_pb2_grpc import ClientStatusDiscoveryServiceStub

PATIENCE = 20  # seconds for one call


def main():
    with grpc.insecure_channel(sys.argv[1]) as channel:
        stub = ClientStatusDiscoveryServiceStub(channel)
        fetched = stub.FetchClientStatus(ClientStatusRequest(), timeout=PATIENCE)
        streamed = list(stub.StreamClientStatus(iter([ClientStatusRequest()]), timeout=PATIENCE))
    json.dump([told(reply) for reply in (fetched, *streamed)], sys.stdout)


def told(reply):
    [config] = reply.config
    return {
        "scope": config.client_scope,
        "node": config.node.id,
        "resources": sorted([each.type_url, each.name, each.client_status] for each in config.generic_xds_configs),
    }


if __name__ == "__main__":
    main()
