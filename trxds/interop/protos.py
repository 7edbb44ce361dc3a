"""The messages and services of `grpc.testing`, which no package that trxds depends on has."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from trxds.resources.proto_pool import load_proto_pool

POOL = load_proto_pool("trxds.interop", "test")


def _message(name: str) -> Any:
    return GetMessageClass(POOL.FindMessageTypeByName(f"grpc.testing.{name}"))


Empty = _message("Empty")
BoolValue = _message("BoolValue")
Payload = _message("Payload")
EchoStatus = _message("EchoStatus")
TestOrcaReport = _message("TestOrcaReport")
SimpleRequest = _message("SimpleRequest")
SimpleResponse = _message("SimpleResponse")
StreamingInputCallRequest = _message("StreamingInputCallRequest")
StreamingInputCallResponse = _message("StreamingInputCallResponse")
ResponseParameters = _message("ResponseParameters")
StreamingOutputCallRequest = _message("StreamingOutputCallRequest")
StreamingOutputCallResponse = _message("StreamingOutputCallResponse")
LoadBalancerStatsRequest = _message("LoadBalancerStatsRequest")
LoadBalancerStatsResponse = _message("LoadBalancerStatsResponse")
LoadBalancerAccumulatedStatsRequest = _message("LoadBalancerAccumulatedStatsRequest")
LoadBalancerAccumulatedStatsResponse = _message("LoadBalancerAccumulatedStatsResponse")
ClientConfigureRequest = _message("ClientConfigureRequest")
ClientConfigureResponse = _message("ClientConfigureResponse")

TEST_SERVICE: ServiceDescriptor = POOL.FindServiceByName("grpc.testing.TestService")
UNIMPLEMENTED_SERVICE: ServiceDescriptor = POOL.FindServiceByName("grpc.testing.UnimplementedService")
STATS_SERVICE: ServiceDescriptor = POOL.FindServiceByName("grpc.testing.LoadBalancerStatsService")
CONFIGURE_SERVICE: ServiceDescriptor = POOL.FindServiceByName("grpc.testing.XdsUpdateClientConfigureService")
