"""`trxds.admin` as grpcio's channelz stubs read it (A14): what our messages say, in somebody else's words."""

import base64
import json
import ssl
import sys
from ipaddress import ip_address
from pathlib import Path

import pytest
import trio
import trustme
from google.protobuf import descriptor_pool, timestamp_pb2, wrappers_pb2
from grpc_channelz.v1 import channelz_pb2

import trxds
import trxds.admin
from trxds import RpcError
from trxds.admin.channelz.protos import NAMES, message
from trxds.testing import ManagementServer, serve, unary
from trxds.testing import resources as xds

WELL_KNOWN = {
    "Timestamp": timestamp_pb2.Timestamp,
    "Int64Value": wrappers_pb2.Int64Value,
    "UInt32Value": wrappers_pb2.UInt32Value,
}
INSECURE = trxds.insecure()
READER = Path(__file__).with_name("grpcio_channelz.py")


async def answer(request, call):
    return b"yes"


async def read(address):
    done = await trio.run_process([sys.executable, str(READER), address], capture_stdout=True)
    return json.loads(done.stdout)


def address(tcpip):
    return f"{ip_address(base64.b64decode(tcpip['ip_address']))}:{tcpip['port']}"


async def told(*, tls=None, credentials=INSECURE):
    """What grpcio reads after three calls, of which the last failed; and the addresses of host and control plane."""
    plane = ManagementServer()
    with trio.fail_after(60):
        async with (
            serve({"/shop.Cart/Add": unary(answer)}, tls=tls) as host,
            plane.serve() as ads,
            trxds.open_channel(
                "xds:///shop", bootstrap=xds.bootstrap(ads), credentials=credentials or trxds.insecure()
            ) as channel,
            trxds.admin.serve(channel) as admin,
        ):
            plane.put(
                xds.listener("shop", routes="r"),
                xds.routes("r", xds.route("cart")),
                xds.cluster("cart"),
                xds.endpoints("cart", xds.locality(host.address)),
            )
            for _ in range(2):
                assert await channel.method("/shop.Cart/Add")(b"") == b"yes"
            with pytest.raises(RpcError):
                await channel.method("/shop.Cart/Remove")(b"")
            return [*await read(admin), host.address, ads]


async def test_grpcio_reads_channel_subchannel_and_socket_and_the_channel_to_the_control_plane():
    data, plane, host, ads = await told()
    assert (
        data["data"].items()
        >= {
            "state": {"state": "READY"},
            "target": "xds:///shop",
            "calls_started": "3",
            "calls_succeeded": "2",
            "calls_failed": "1",
        }.items()
    )
    [subchannel] = data["subchannels"]
    assert (
        subchannel["data"].items()
        >= {
            "state": {"state": "READY"},
            "target": host,
            "calls_started": "3",
            "calls_succeeded": "2",
            "calls_failed": "1",
        }.items()
    )
    [event] = subchannel["data"]["trace"]["events"]
    assert (event["description"], event["severity"]) == ("READY", "CT_INFO")
    [socket] = subchannel["sockets"]
    assert socket["data"].items() >= {"streams_started": "3", "streams_succeeded": "3", "messages_sent": "3"}.items()
    assert address(socket["remote"]["tcpip_address"]) == host
    assert "security" not in socket
    assert (plane["ref"]["name"], plane["data"]["target"]) == (f"ads/{ads}", ads)
    assert plane["data"]["state"] == {"state": "READY"}
    [socket] = plane["sockets"]
    assert address(socket["remote"]["tcpip_address"]) == ads
    assert int(socket["data"]["messages_received"]) >= 4


async def test_grpcio_reads_how_a_socket_is_secured():
    ca = trustme.CA()
    certificate = ca.issue_cert("cart.example")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["h2"])
    certificate.configure_cert(context)
    trusted = ssl.create_default_context()
    ca.configure_trust(trusted)
    data, *_ = await told(tls=context, credentials=trxds.tls(trusted, server_name="cart.example"))
    tls = data["subchannels"][0]["sockets"][0]["security"]["tls"]
    der = ssl.PEM_cert_to_DER_cert(certificate.cert_chain_pems[0].bytes().decode())
    assert base64.b64decode(tls["remote_certificate"]) == der
    assert tls["standard_name"].startswith("TLS_")


# -- the messages, beside the generated ones


def real(name):
    """The descriptor of the message of that name, which may be within another one."""
    within = {"TcpIpAddress": "Address", "UdsAddress": "Address", "OtherAddress": "Address", "Tls": "Security"}
    if name in WELL_KNOWN:
        return WELL_KNOWN[name].DESCRIPTOR
    by_name = channelz_pb2.DESCRIPTOR.message_types_by_name
    return by_name[within[name]].nested_types_by_name[name] if name in within else by_name[name]


def looks(field):
    """What of it has to be the same; an enum is a number on the wire."""
    type = field.TYPE_INT32 if field.enum_type is not None else field.type
    return field.name, field.number, type, field.is_repeated, field.message_type and field.message_type.name


@pytest.mark.parametrize("name", NAMES)
def test_each_message_of_ours_is_a_part_of_the_protocols(name):
    fields = real(name).fields_by_number
    assert [looks(field) for field in message(name).DESCRIPTOR.fields] == [
        looks(fields[field.number]) for field in message(name).DESCRIPTOR.fields
    ]


def test_the_default_pool_has_the_generated_messages_and_not_ours():
    found = descriptor_pool.Default().FindMessageTypeByName("grpc.channelz.v1.Channel")
    assert found is channelz_pb2.Channel.DESCRIPTOR
    assert found is not message("Channel").DESCRIPTOR
