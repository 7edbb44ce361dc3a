"""The messages of `grpc.channelz.v1`: the package that has them generated needs grpcio.

Enums are written as numbers, and the well-known types as messages of the same fields: the wire knows no difference.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message_factory import GetMessageClass

from trxds.resources.made_protos import make

_PACKAGE = "grpc.channelz.v1"

_MESSAGES = {
    "Timestamp": "int64 seconds = 1; int32 nanos = 2",
    "Int64Value": "int64 value = 1",
    "UInt32Value": "uint32 value = 1",
    # what there is
    "ChannelRef": "int64 channel_id = 1; string name = 2",
    "SubchannelRef": "int64 subchannel_id = 7; string name = 8",
    "SocketRef": "int64 socket_id = 3; string name = 4",
    "Channel": """ChannelRef ref = 1; ChannelData data = 2; repeated SubchannelRef subchannel_ref = 4;
        repeated SocketRef socket_ref = 5""",
    "Subchannel": "SubchannelRef ref = 1; ChannelData data = 2; repeated SocketRef socket_ref = 5",
    "ChannelConnectivityState": "int32 state = 1",
    "ChannelData": """ChannelConnectivityState state = 1; string target = 2; ChannelTrace trace = 3;
        int64 calls_started = 4; int64 calls_succeeded = 5; int64 calls_failed = 6;
        Timestamp last_call_started_timestamp = 7""",
    "ChannelTrace": """int64 num_events_logged = 1; Timestamp creation_timestamp = 2;
        repeated ChannelTraceEvent events = 3""",
    "ChannelTraceEvent": "string description = 1; int32 severity = 2; Timestamp timestamp = 3",
    "Socket": """SocketRef ref = 1; SocketData data = 2; Address local = 3; Address remote = 4;
        Security security = 5; string remote_name = 6""",
    "SocketData": """int64 streams_started = 1; int64 streams_succeeded = 2; int64 streams_failed = 3;
        int64 messages_sent = 4; int64 messages_received = 5; int64 keep_alives_sent = 6;
        Timestamp last_local_stream_created_timestamp = 7; Timestamp last_message_sent_timestamp = 9;
        Timestamp last_message_received_timestamp = 10; Int64Value local_flow_control_window = 11;
        Int64Value remote_flow_control_window = 12;
        UInt32Value received_goaway_error = 14; uint32 peer_max_concurrent_streams = 15""",
    "Address": "TcpIpAddress tcpip_address = 1; UdsAddress uds_address = 2; OtherAddress other_address = 3",
    "TcpIpAddress": "bytes ip_address = 1; int32 port = 2",
    "UdsAddress": "string filename = 1",
    "OtherAddress": "string name = 1",
    "Security": "Tls tls = 1",
    "Tls": "string standard_name = 1; string other_name = 2; bytes remote_certificate = 4",
    # what is asked and answered
    "GetTopChannelsRequest": "int64 start_channel_id = 1; int64 max_results = 2",
    "GetTopChannelsResponse": "repeated Channel channel = 1; bool end = 2",
    "GetServersRequest": "int64 start_server_id = 1; int64 max_results = 2",
    "GetServersResponse": "bool end = 2",
    "GetServerRequest": "int64 server_id = 1",
    "GetServerResponse": "",
    "GetServerSocketsRequest": "int64 server_id = 1; int64 start_socket_id = 2; int64 max_results = 3",
    "GetServerSocketsResponse": "repeated SocketRef socket_ref = 1; bool end = 2",
    "GetChannelRequest": "int64 channel_id = 1",
    "GetChannelResponse": "Channel channel = 1",
    "GetSubchannelRequest": "int64 subchannel_id = 1",
    "GetSubchannelResponse": "Subchannel subchannel = 1",
    "GetSocketRequest": "int64 socket_id = 1; bool summary = 2",
    "GetSocketResponse": "Socket socket = 1",
}

NAMES = tuple(_MESSAGES)
_POOL = make("trxds/admin/channelz.proto", _PACKAGE, _MESSAGES)
_CLASSES = {name: GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in NAMES}


def message(name: str) -> Any:
    """The class of that name."""
    return _CLASSES[name]
