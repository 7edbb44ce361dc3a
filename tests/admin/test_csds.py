"""How a resource and what became of it are told, by values; and the service, asked in memory (A40)."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
import trio
from support.mesh import Mesh, ask
from support.raw import call
from support.talk import Bad, Talk
from trio.testing import wait_all_tasks_blocked

import trxds
import trxds.admin
from trxds import StatusCode
from trxds.admin.csds import SERVICE, CsdsEncoder
from trxds.admin.grpc_services import grpc_handlers
from trxds.admin.protos import ClientResourceStatus, ClientStatusRequest, ClientStatusResponse
from trxds.admin.resource_message import without_sensitive_fields
from trxds.core.clock import Clock
from trxds.resources import protos
from trxds.testing import resources as xds
from trxds.testing import serve
from trxds.transport.connect import TcpNetwork

pytestmark = pytest.mark.slow

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
MAGLEV = protos.Cluster.LbPolicy.Value("MAGLEV")
ADMIN = "127.0.0.1:15000"
FETCH, STREAM = f"{SERVICE}/FetchClientStatus", f"{SERVICE}/StreamClientStatus"


# -- one resource


def talk():
    """One that wants the cluster "a"; the time of day is noon when it begins."""
    conversation = Talk()
    conversation.wants("CDS", "a")
    conversation.opens()
    return conversation


def told(conversation, **options):
    return CsdsEncoder(Clock(NOON.timestamp()), **options).config(conversation.resource("a"))


def state(message):
    return ClientResourceStatus.Name(message.client_status)


def test_a_requested_resource_has_only_a_name_in_csds():
    message = told(talk())
    assert (message.type_url, message.name) == (CLUSTER, "a")
    assert state(message) == "REQUESTED"
    assert not message.HasField("xds_config")
    assert not message.HasField("error_state")


def test_an_acked_resource_has_a_version_and_a_time_in_csds():
    conversation = talk()
    conversation.now = 60.0
    conversation.hears("CDS", "7", a="good")
    message = told(conversation)
    assert (state(message), message.version_info, message.HasField("xds_config")) == ("ACKED", "7", True)
    assert message.last_updated.ToDatetime(UTC) == NOON.replace(minute=1)


def test_a_nacked_resource_has_its_error_beside_the_version_in_use_in_csds():
    conversation = talk()
    conversation.hears("CDS", "7", a="good")
    conversation.now = 60.0
    conversation.hears("CDS", "8", a=Bad("no good"))
    message = told(conversation)
    assert (state(message), message.version_info, message.HasField("xds_config")) == ("NACKED", "7", True)
    error = message.error_state
    assert (error.version_info, error.HasField("failed_configuration")) == ("8", True)
    assert "no good" in error.details
    assert error.last_update_attempt.ToDatetime(UTC) == NOON.replace(minute=1)


def test_a_resource_that_comes_again_unchanged_has_the_newest_version_and_its_first_time_in_csds():
    conversation = talk()
    conversation.hears("CDS", "7", a="good")
    conversation.now = 60.0
    conversation.hears("CDS", "8", a="good")
    message = told(conversation)
    assert (state(message), message.version_info) == ("ACKED", "8")
    assert message.last_updated.ToDatetime(UTC) == NOON


def test_a_nacked_resource_that_comes_again_unchanged_has_the_newest_version_in_its_error_in_csds():
    conversation = talk()
    conversation.hears("CDS", "7", a="good")
    for version in ("8", "9"):
        conversation.hears("CDS", version, a=Bad("no good"))
    message = told(conversation)
    assert (state(message), message.version_info, message.error_state.version_info) == ("NACKED", "7", "9")


def test_a_resource_that_timed_out_does_not_exist_in_csds():
    conversation = talk()
    conversation.waits(15)
    message = told(conversation)
    assert state(message) == "DOES_NOT_EXIST"
    assert message.error_state.details == "does not exist, asked 15 s before"


def test_a_resource_error_is_in_csds_without_a_resource():
    conversation = talk()
    conversation.hears_of_failure("CDS", "7", "a", 7, "not for you")
    message = told(conversation)
    assert state(message) == "RECEIVED_ERROR"
    assert "not for you" in message.error_state.details
    assert not message.error_state.HasField("failed_configuration")


def test_csds_may_leave_resource_contents_out():
    conversation = talk()
    conversation.hears("CDS", "7", a="good")
    message = told(conversation, contents=False)
    assert message.version_info == "7"
    assert not message.HasField("xds_config")


# -- the service


async def ask_for(path, *requests, network, address=ADMIN):
    """The replies and the status."""
    replies, status = await call(network, address, path, *(each.SerializeToString() for each in requests))
    return [ClientStatusResponse.FromString(each) for each in replies], status


async def fetch(network, address=ADMIN, **request):
    [reply], status = await ask_for(FETCH, ClientStatusRequest(**request), network=network, address=address)
    assert status.code is StatusCode.OK
    return reply.config


@asynccontextmanager
async def told_of_channel():
    async with (
        Mesh.run(1) as mesh,
        mesh.channel() as channel,
        trxds.admin.serve(channel, address=ADMIN, network=mesh.network),
    ):
        yield mesh.network


def states(config):
    return {each.name: state(each) for each in config.generic_xds_configs}


async def test_a_channel_shows_its_target_its_node_and_all_its_resources(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        async with trxds.admin.serve(channel, address=ADMIN, network=mesh.network):
            [config] = await fetch(mesh.network)
    assert config.client_scope == "xds:///shop"
    assert (config.node.id, config.node.user_agent_name) == ("trxds-test", "trxds")
    assert states(config) == {"shop": "ACKED", "routes": "ACKED", "cart": "ACKED"}
    assert len(config.generic_xds_configs) == 4  # cluster and endpoints have one name
    [cluster] = [each for each in config.generic_xds_configs if each.type_url.endswith(".Cluster")]
    assert protos.Cluster.FromString(cluster.xds_config.value).name == "cart"


async def test_csds_shows_nacked_resources_of_a_channel(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        mesh.plane.put(xds.cluster("cart") | {"lb_policy": "MAGLEV"})
        await mesh.plane.wait_for_nack("CDS")
        async with trxds.admin.serve(channel, address=ADMIN, network=mesh.network):
            [config] = await fetch(mesh.network)
        assert await ask(channel) in mesh.hosts
    [cluster] = [each for each in config.generic_xds_configs if each.type_url.endswith(".Cluster")]
    assert state(cluster) == "NACKED"
    assert "LB policy is not supported" in cluster.error_state.details
    assert protos.Cluster.FromString(cluster.error_state.failed_configuration.value).lb_policy == MAGLEV


async def test_csds_shows_no_private_key(autojump_clock):
    certificate = {"certificate_chain": {"inline_string": "PUBLIC"}, "private_key": {"inline_string": "SECRET"}}
    tls = {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": {"tls_certificates": [certificate]},
    }
    socket = {"name": "envoy.transport_sockets.tls", "typed_config": tls}
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        mesh.plane.put(xds.cluster("cart") | {"transport_socket": socket})
        await mesh.plane.wait_for_nack("CDS")
        async with trxds.admin.serve(channel, address=ADMIN, network=mesh.network):
            [config] = await fetch(mesh.network)
    told = config.SerializeToString()
    assert b"PUBLIC" in told and b"SECRET" not in told


def test_csds_shows_only_the_type_of_a_message_that_is_not_known():
    unknown = protos.AnyProto(type_url="example.com/acme.Filter", value=b"SECRET")
    cluster = protos.Cluster(name="cart", typed_extension_protocol_options={"acme": unknown})
    told = protos.Cluster.FromString(without_sensitive_fields(CLUSTER, cluster.SerializeToString()))
    assert (told.name, told.typed_extension_protocol_options["acme"].type_url) == ("cart", "example.com/acme.Filter")
    assert not told.typed_extension_protocol_options["acme"].value


def test_csds_does_not_show_a_field_that_is_not_known():
    unknown = b"\xfa\xff\xff\xff\x0f\x06SECRET"  # field 536,870,911, which no message has
    cluster = protos.Cluster(name="cart")
    cluster.eds_cluster_config.service_name = "a"
    known = cluster.SerializeToString()
    cluster.MergeFromString(unknown)
    cluster.eds_cluster_config.MergeFromString(unknown)
    assert without_sensitive_fields(CLUSTER, cluster.SerializeToString()) == known


def test_csds_does_not_show_a_resource_that_cannot_be_parsed():
    assert without_sensitive_fields(CLUSTER, b"SECRET") == b""


async def test_csds_has_a_shared_xds_client_once(autojump_clock):
    async with (
        Mesh.run(1) as mesh,
        trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network) as client,
        trxds.open_channel("xds:///shop", xds=client, network=mesh.network) as channel,
    ):
        await ask(channel)
        async with trxds.admin.serve(client, address=ADMIN, network=mesh.network):
            [config] = await fetch(mesh.network, exclude_resource_contents=True)
    assert config.client_scope == ""
    assert states(config)["cart"] == "ACKED"
    assert not any(each.HasField("xds_config") for each in config.generic_xds_configs)


async def test_a_server_of_a_programs_own_can_serve_csds_too(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        async with serve(grpc_handlers([channel]), address=ADMIN, network=mesh.network):
            [config] = await fetch(mesh.network)
    assert states(config)["cart"] == "ACKED"


async def test_a_csds_stream_answers_each_request_with_the_present_state(autojump_clock):
    async with told_of_channel() as network:
        replies, status = await ask_for(STREAM, *[ClientStatusRequest()] * 3, network=network)
    assert status.code is StatusCode.OK
    assert len(replies) == 3


async def test_csds_rejects_node_matchers(autojump_clock):
    async with told_of_channel() as network:
        request = ClientStatusRequest()
        request.node_matchers.add()
        for path in (FETCH, STREAM):
            replies, status = await ask_for(path, request, network=network)
            assert (replies, status.code) == ([], StatusCode.INVALID_ARGUMENT)


async def test_csds_shows_all_resources_of_a_large_mesh(autojump_clock):
    async with Mesh.run(1) as mesh:
        names = [f"c{number}" for number in range(300)]
        mesh.plane.put(*(xds.cluster(name) for name in names))
        mesh.plane.put(*(xds.endpoints(name, xds.locality(*mesh.hosts)) for name in names))
        mesh.route(dict.fromkeys(names, 1))
        async with (
            mesh.channel() as channel,
            trxds.admin.serve(channel, address=ADMIN, network=mesh.network),
        ):
            await ask(channel)
            [config] = await fetch(mesh.network)
    assert len(config.generic_xds_configs) == 602


# -- where it listens


async def test_the_csds_server_ends_with_its_block(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        async with trxds.admin.serve(channel, address=ADMIN, network=mesh.network):
            await fetch(mesh.network)
        await wait_all_tasks_blocked()
        with pytest.raises(ConnectionRefusedError):
            await mesh.network.connect(ADMIN)


async def test_a_free_port_of_the_loopback_is_the_default():
    async with trxds.admin.serve() as address:
        host, _, port = address.rpartition(":")
        assert host == "127.0.0.1"
        assert int(port) > 0
        assert await fetch(TcpNetwork(), address) == []


async def test_a_unix_socket_is_taken_away_afterwards(tmp_path):
    path = tmp_path / "admin"
    async with trxds.admin.serve(address=f"unix:{path}") as address:
        assert await fetch(TcpNetwork(), address) == []
        with pytest.raises(OSError, match="listens there already"):
            async with trxds.admin.serve(address=f"unix:{path}"):
                pass
        assert await fetch(TcpNetwork(), address) == []
    assert not path.exists()


async def test_a_socket_that_a_dead_process_left_is_no_obstacle(tmp_path):
    path = tmp_path / "admin"
    with trio.socket.socket(trio.socket.AF_UNIX) as left:
        await left.bind(str(path))
    assert path.exists()
    async with trxds.admin.serve(address=f"unix:{path}") as address:
        assert await fetch(TcpNetwork(), address) == []
