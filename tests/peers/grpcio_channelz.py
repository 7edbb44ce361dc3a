"""Reads channelz with grpcio's stubs, in a process of its own: all that hangs on the top channels, as JSON."""

import json
import sys

import grpc
from google.protobuf.json_format import MessageToDict
from grpc_channelz.v1 import channelz_pb2 as pb
from grpc_channelz.v1.channelz_pb2_grpc import ChannelzStub

PATIENCE = 20  # seconds for one call


def main():
    with grpc.insecure_channel(sys.argv[1]) as channel:
        json.dump(list(channels(ChannelzStub(channel))), sys.stdout)


def channels(stub):
    top = stub.GetTopChannels(pb.GetTopChannelsRequest(), timeout=PATIENCE)
    assert top.end
    for each in top.channel:
        one = stub.GetChannel(pb.GetChannelRequest(channel_id=each.ref.channel_id), timeout=PATIENCE).channel
        yield told(one) | {"subchannels": [subchannel(stub, ref) for ref in one.subchannel_ref], **sockets(stub, one)}


def subchannel(stub, ref):
    request = pb.GetSubchannelRequest(subchannel_id=ref.subchannel_id)
    one = stub.GetSubchannel(request, timeout=PATIENCE).subchannel
    return told(one) | sockets(stub, one)


def sockets(stub, owner):
    asked = [pb.GetSocketRequest(socket_id=ref.socket_id) for ref in owner.socket_ref]
    return {"sockets": [told(stub.GetSocket(each, timeout=PATIENCE).socket) for each in asked]}


def told(message):
    return MessageToDict(message, preserving_proto_field_name=True)


if __name__ == "__main__":
    main()
