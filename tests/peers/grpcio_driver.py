"""Drives an xDS test client as psm-interop does, with grpcio and grpcio-reflection; what it saw is JSON on stdout.

Its messages are those that the client describes by reflection.
"""

import json
import sys

import grpc
from envoy.service.status.v3.csds_pb2 import ClientStatusRequest
from envoy.service.status.v3.csds_pb2_grpc import ClientStatusDiscoveryServiceStub
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_channelz.v1.channelz_pb2 import GetTopChannelsRequest
from grpc_channelz.v1.channelz_pb2_grpc import ChannelzStub
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

PATIENCE = 30  # seconds for one call
STATS, CONFIGURE = "grpc.testing.LoadBalancerStatsService", "grpc.testing.XdsUpdateClientConfigureService"


class Client:
    """The services of a test client."""

    def __init__(self, channel):
        self._channel = channel
        self._pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))

    def call(self, service, name, **fields):
        method = self._pool.FindServiceByName(service).methods_by_name[name]
        request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        ask = self._channel.unary_unary(
            f"/{service}/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return ask(request(**fields), timeout=PATIENCE)

    def stats(self, count, keys=()):
        return self.call(STATS, "GetClientStats", num_rpcs=count, timeout_sec=PATIENCE, metadata_keys=keys)

    def accumulated(self):
        return self.call(STATS, "GetClientAccumulatedStats")

    def configure(self, types, metadata=(), timeout=0):
        pairs = [{"type": type, "key": key, "value": value} for type, key, value in metadata]
        self.call(CONFIGURE, "Configure", types=types, metadata=pairs, timeout_sec=timeout)


def both_answer(client):
    """The statistics of 20 RPCs that have gone to two servers."""
    while len((stats := client.stats(20)).rpcs_by_peer) < 2 or stats.num_failures:
        pass
    return stats


def drive(channel):
    client = Client(channel)
    spread = both_answer(client)
    [(server, metadata)] = client.stats(1, ["*"]).metadatas_by_peer.items()
    keys = {each.key: each.value for each in metadata.rpc_metadata[0].metadata}
    client.configure(["UNARY_CALL"], [("UNARY_CALL", "cookie", keys["set-cookie"])], timeout=5)
    pinned = client.stats(20)
    client.configure(["UNARY_CALL", "EMPTY_CALL"])
    client.stats(4)
    accumulated = client.accumulated().stats_per_method
    [config] = ClientStatusDiscoveryServiceStub(channel).FetchClientStatus(ClientStatusRequest()).config
    channels = ChannelzStub(channel).GetTopChannels(GetTopChannelsRequest()).channel
    return {
        "spread": dict(spread.rpcs_by_peer),
        "keys": sorted(keys),
        "pinned": dict(pinned.rpcs_by_peer) == {server: 20},
        "methods": {name: sorted(each.result) for name, each in accumulated.items()},
        "csds": sorted(each.name for each in config.generic_xds_configs),
        "channels": [each.data.target for each in channels],
        "health": HealthStub(channel).Check(HealthCheckRequest()).status,
    }


if __name__ == "__main__":
    with grpc.insecure_channel(sys.argv[1]) as channel:
        json.dump(drive(channel), sys.stdout)
