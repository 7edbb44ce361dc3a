"""The messages and services of `grpc.testing`, which no package that trxds depends on has."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from trxds.resources.made_protos import make

_PACKAGE = "grpc.testing"

_MESSAGES = {
    "Empty": "",
    "BoolValue": "bool value = 1",
    "Payload": "bytes body = 2",
    "EchoStatus": "int32 code = 1; string message = 2",
    "TestOrcaReport": """double cpu_utilization = 1; double memory_utilization = 2;
        map<string, double> request_cost = 3; map<string, double> utilization = 4""",
    "SimpleRequest": """int32 response_size = 2; Payload payload = 3; bool fill_username = 4; bool fill_oauth_scope = 5;
        BoolValue response_compressed = 6; EchoStatus response_status = 7; BoolValue expect_compressed = 8;
        bool fill_server_id = 9; TestOrcaReport orca_per_query_report = 11""",
    "SimpleResponse": """Payload payload = 1; string username = 2; string oauth_scope = 3; string server_id = 4;
        string hostname = 6""",
    "StreamingInputCallRequest": "Payload payload = 1; BoolValue expect_compressed = 2",
    "StreamingInputCallResponse": "int32 aggregated_payload_size = 1",
    "ResponseParameters": "int32 size = 1; int32 interval_us = 2; BoolValue compressed = 3",
    "StreamingOutputCallRequest": """repeated ResponseParameters response_parameters = 2; Payload payload = 3;
        EchoStatus response_status = 7; TestOrcaReport orca_oob_report = 8""",
    "StreamingOutputCallResponse": "Payload payload = 1",
}

_SERVICES = {
    "TestService": """EmptyCall Empty -> Empty; UnaryCall SimpleRequest -> SimpleResponse;
        StreamingOutputCall StreamingOutputCallRequest -> stream StreamingOutputCallResponse;
        StreamingInputCall stream StreamingInputCallRequest -> StreamingInputCallResponse;
        FullDuplexCall stream StreamingOutputCallRequest -> stream StreamingOutputCallResponse;
        UnimplementedCall Empty -> Empty""",
    "UnimplementedService": "UnimplementedCall Empty -> Empty",
}

_POOL = make("trxds/interop/test.proto", _PACKAGE, _MESSAGES, _SERVICES)


def _message(name: str) -> Any:
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


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

TEST_SERVICE: ServiceDescriptor = _POOL.FindServiceByName(f"{_PACKAGE}.TestService")
UNIMPLEMENTED_SERVICE: ServiceDescriptor = _POOL.FindServiceByName(f"{_PACKAGE}.UnimplementedService")
