"""What users see when something outside is wrong: an error that names the thing, its place, and the remedy."""

from contextlib import asynccontextmanager, suppress

import h2.config
import h2.connection
import h2.events
import pytest
import trio
from google.protobuf.wrappers_pb2 import Int32Value, StringValue
from support.mesh import METHOD, PLANE, Mesh, ask, bidi, method

import trxds
from trxds import BootstrapError, RpcError, StatusCode
from trxds.testing import MemoryNetwork, unary
from trxds.testing import resources as xds

GARBAGE = {"HTTP/1": b"HTTP/1.1 400 Bad Request\r\n\r\n", "noise": b"\x00\x01garbage" * 10}


@asynccontextmanager
async def listening(network, address, talk):
    """`await talk(stream)` with everybody who connects to that address."""

    async def until_gone(stream):
        with suppress(trio.BrokenResourceError):
            await talk(stream)

    async def accept(listener):
        async with trio.open_nursery() as talks:
            while True:
                talks.start_soon(until_gone, await listener.accept())

    async with network.listen(address) as listener, trio.open_nursery() as nursery:
        nursery.start_soon(accept, listener)
        yield address
        nursery.cancel_scope.cancel()


def says(data):
    """A peer that has its say and reads on."""

    async def talk(stream):
        await stream.send_all(data)
        while await stream.receive_some():
            pass

    return talk


def website(status):
    """An HTTP/2 server that has never heard of gRPC."""

    async def talk(stream):
        server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        server.initiate_connection()
        await stream.send_all(server.data_to_send())
        while data := await stream.receive_some():
            for event in server.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    server.send_headers(event.stream_id, [(":status", status), ("content-type", "text/html")])
                    server.send_data(event.stream_id, b"<html>Nothing here.</html>", end_stream=True)
            await stream.send_all(server.data_to_send())

    return talk


@asynccontextmanager
async def channel_to_plane(talk):
    """A channel whose control plane talks like that."""
    network = MemoryNetwork()
    channel = trxds.open_channel("xds:///shop", bootstrap=xds.bootstrap(PLANE), network=network)
    async with listening(network, PLANE, talk), channel as opened:
        yield opened


async def failure(call, *, within=0):
    """The status of a call that fails, in so many seconds."""
    began = trio.current_time()
    with pytest.raises(RpcError) as failed:
        await call
    assert trio.current_time() - began == pytest.approx(within, abs=0.2)
    return failed.value.status


def names(message, *parts):
    """The message has all of these; what is missing is shown."""
    assert [part for part in parts if part not in message] == [], message


class TestTargets:
    @pytest.mark.parametrize(
        ("target", "what"),
        [
            ("http://shop", "unknown scheme 'http'"),
            ("dns:///shop:80", "unknown scheme 'dns'"),
            ("shop", "no scheme"),
            ("", "no scheme"),
            ("xds", "no scheme"),
            ("xds:", "names no service"),
            ("xds:///", "names no service"),
            ("xds:///shop/", "names no service"),
        ],
    )
    async def test_a_target_that_is_none_is_refused_before_anything_runs(self, target, what):
        with pytest.raises(ValueError) as refused:
            async with trxds.open_channel(target, bootstrap=xds.bootstrap(PLANE)):
                pass
        names(str(refused.value), f"target {target!r}", what, "xds:///NAME")

    async def test_an_unknown_authority_is_refused(self):
        with pytest.raises(BootstrapError) as refused:
            async with trxds.open_channel("xds://fleet/shop", bootstrap=xds.bootstrap(PLANE)):
                pass
        names(str(refused.value), "'xds://fleet/shop'", "'fleet'", "add it there", "xds:///shop")

    async def test_without_a_bootstrap_the_error_says_how_to_give_one(self, monkeypatch):
        monkeypatch.delenv("GRPC_XDS_BOOTSTRAP", raising=False)
        monkeypatch.delenv("GRPC_XDS_BOOTSTRAP_CONFIG", raising=False)
        with pytest.raises(BootstrapError) as refused:
            async with trxds.open_channel("xds:///shop"):
                pass
        names(str(refused.value), "GRPC_XDS_BOOTSTRAP", "GRPC_XDS_BOOTSTRAP_CONFIG", "bootstrap=")

    async def test_a_malformed_bootstrap_is_refused_with_the_fields_place(self):
        with pytest.raises(BootstrapError) as refused:
            async with trxds.open_channel("xds:///shop", bootstrap={"xds_servers": [{}]}):
                pass
        names(str(refused.value), "xds_servers[0].server_uri")


class TestControlPlane:
    IN_QUESTION = ('LDS resource "shop"', f"server {PLANE}", 'node "trxds-test"', "cannot reach the xDS server")

    async def test_one_that_nobody_runs_fails_rpcs_at_once(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.network.refuse(PLANE)
            async with mesh.channel() as channel:
                status = await failure(ask(channel))
        assert status.code is StatusCode.UNAVAILABLE
        names(status.message, *self.IN_QUESTION, "Connection refused", "check that it runs, and server_uri")

    async def test_one_that_does_not_answer_fails_rpcs_after_twenty_seconds(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.network.black_hole(PLANE)
            async with mesh.channel() as channel:
                status = await failure(ask(channel), within=20)
                names(status.message, *self.IN_QUESTION, "check server_uri")
                await failure(ask(channel))

    async def test_an_rpc_that_waits_for_ready_waits(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.network.refuse(PLANE)
            async with mesh.channel() as channel, trio.open_nursery() as nursery:
                answers = []

                async def wait():
                    answers.append(await ask(channel, wait_for_ready=True))

                nursery.start_soon(wait)
                await trio.sleep(10)
                assert answers == []
                mesh.network.restore(PLANE)
                await trio.sleep(60)
                assert answers == mesh.hosts

    async def test_an_rpc_that_waited_in_vain_says_for_what(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.network.refuse(PLANE)
            async with mesh.channel() as channel:
                status = await failure(ask(channel, wait_for_ready=True, timeout=5), within=5)
        assert status.code is StatusCode.DEADLINE_EXCEEDED
        names(status.message, METHOD, "5 s", *self.IN_QUESTION)

    @pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
    async def test_one_that_speaks_no_http2_fails_rpcs_at_once(self, data, autojump_clock):
        async with channel_to_plane(says(data)) as channel:
            status = await failure(ask(channel))
        assert status.code is StatusCode.UNAVAILABLE
        names(status.message, *self.IN_QUESTION, "does not speak HTTP/2", "check server_uri")

    async def test_one_that_accepts_and_says_nothing_fails_rpcs_after_twenty_seconds(self, autojump_clock):
        async with channel_to_plane(says(b"")) as channel:
            status = await failure(ask(channel), within=20)
        names(status.message, *self.IN_QUESTION, "check server_uri")

    async def test_one_that_is_a_website_fails_rpcs_at_once(self, autojump_clock):
        async with channel_to_plane(website("404")) as channel:
            status = await failure(ask(channel))
        assert status.code is StatusCode.UNAVAILABLE, "its codes never reach RPCs (A54)"
        names(status.message, *self.IN_QUESTION, "HTTP status 404", "check that a gRPC server listens there")


class TestResources:
    @pytest.mark.parametrize(("kind", "name"), [("LDS", "shop"), ("RDS", "routes"), ("CDS", "cart"), ("EDS", "cart")])
    async def test_one_that_does_not_exist_fails_rpcs_after_fifteen_seconds(self, kind, name, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.plane.remove(kind, name)
            async with mesh.channel() as channel:
                status = await failure(ask(channel), within=15)
                assert await failure(ask(channel)) == status, "from then on at once"
        assert status.code is StatusCode.UNAVAILABLE
        names(status.message, f'{kind} resource "{name}"', f"server {PLANE}", 'node "trxds-test"', "does not exist")

    async def test_an_unknown_cluster_fails_its_own_rpcs_only(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.route(xds.route("nowhere", prefix="/shop.Cart/Lost"), xds.route("cart"))
            async with mesh.channel() as channel:
                status = await failure(method(channel, "/shop.Cart/Lost")(b""), within=15)
                names(status.message, 'CDS resource "nowhere"', f"server {PLANE}", "does not exist")
                assert await ask(channel) == mesh.hosts[0]

    async def test_an_invalid_one_is_refused_with_the_fields_place(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.cluster("cart", idle_timeout=-1)
            async with mesh.channel() as channel:
                status = await failure(ask(channel))
        names(status.message, 'CDS resource "cart"', f"server {PLANE}", "invalid resource", "idle_timeout.seconds")

    async def test_an_invalid_update_leaves_the_last_good_one_in_force(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
            mesh.cluster("cart", idle_timeout=-1)
            nack = await mesh.plane.wait_for_nack("CDS")
            names(nack.error, "cart", "idle_timeout.seconds")
            assert await ask(channel) == mesh.hosts[0]

    async def test_routes_without_our_virtual_host_say_which_domain_is_missing(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.plane.put(xds.routes("routes", xds.route("cart"), domains=["other"]))
            async with mesh.channel() as channel:
                status = await failure(ask(channel))
        names(status.message, 'RDS resource "routes"', 'no virtual host for "shop"', "add that domain")

    async def test_an_rpc_that_no_route_matches_says_so(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.route(xds.route("cart", prefix="/other"))
            async with mesh.channel() as channel:
                status = await failure(ask(channel, wait_for_ready=True))
        assert status.code is StatusCode.UNAVAILABLE
        names(status.message, METHOD, 'virtual host "routes"')

    async def test_a_cluster_without_endpoints_says_so(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.endpoints("cart")
            async with mesh.channel() as channel:
                status = await failure(ask(channel))
        names(status.message, 'EDS resource "cart"', "has no localities", "add endpoints")


class TestBackends:
    ADDRESS = "10.0.9.9:50051"

    @asynccontextmanager
    async def channel(self, talk):
        """A channel whose only host talks like that."""
        async with Mesh.run(0) as mesh, listening(mesh.network, self.ADDRESS, talk):
            mesh.endpoints("cart", [self.ADDRESS])
            async with mesh.channel() as channel:
                yield channel

    async def test_one_that_is_down_is_named(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.network.refuse(mesh.hosts[0])
            async with mesh.channel() as channel:
                status = await failure(ask(channel))
        assert status.code is StatusCode.UNAVAILABLE
        names(status.message, mesh.hosts[0], "cannot connect", "Connection refused")

    @pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
    async def test_one_that_speaks_garbage_is_named(self, data, autojump_clock):
        async with self.channel(says(data)) as channel:
            status = await failure(ask(channel))
        assert status.code is StatusCode.UNAVAILABLE
        names(status.message, self.ADDRESS, "does not speak HTTP/2")

    async def test_one_that_accepts_and_says_nothing_is_named(self, autojump_clock):
        async with self.channel(says(b"")) as channel:
            status = await failure(ask(channel), within=20)
        names(status.message, self.ADDRESS, "no HTTP/2 SETTINGS")

    @pytest.mark.parametrize(
        ("http", "code", "text"),
        [
            ("404", StatusCode.UNIMPLEMENTED, "HTTP status 404"),
            ("503", StatusCode.UNAVAILABLE, "HTTP status 503"),
            ("200", StatusCode.UNKNOWN, "content-type 'text/html'"),
        ],
    )
    async def test_one_that_is_a_website_is_named(self, http, code, text, autojump_clock):
        async with self.channel(website(http)) as channel:
            status = await failure(ask(channel))
        assert status.code is code
        names(status.message, self.ADDRESS, text, "check that a gRPC server listens there")

    async def test_a_method_it_does_not_have_is_named(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            mesh.servers[mesh.hosts[0]].fallback = None
            status = await failure(ask(channel))
        assert status.code is StatusCode.UNIMPLEMENTED
        names(status.message, METHOD)


class TestCallers:
    """Their own mistakes are TypeError or ValueError, and nothing is sent."""

    @pytest.mark.parametrize(
        ("metadata", "error", "parts"),
        [
            ([("bad key", "x")], ValueError, ["'bad key'", "letters"]),
            ([("grpc-timeout", "1S")], ValueError, ["'grpc-timeout'", "choose another"]),
            ([("id-bin", "x")], TypeError, ["'id-bin'", "must be bytes"]),
            ([("id", b"x")], TypeError, ["'id'", "end the key in -bin"]),
            ([("id", 7)], TypeError, ["'id'", "int"]),
            ([("id", "ü")], ValueError, ["'id'", "'ü'", "-bin"]),
            ([("id",)], TypeError, ["('id',)", "pair of key and value"]),
            (["id"], TypeError, ["'id'", "pair of key and value"]),
            ({"id": "7"}, TypeError, ["'id'", "pair of key and value"]),
            ([(b"id", "7")], TypeError, ["(b'id', '7')", "pair of key and value"]),
        ],
    )
    async def test_bad_metadata(self, metadata, error, parts, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(error) as refused:
                await ask(channel, metadata=metadata)
            assert mesh.servers[mesh.hosts[0]].calls == []
        names(str(refused.value), *parts)

    @pytest.mark.parametrize("path", ["shop.Cart/Add", "/shop.Cart", "/shop.Cart/Add/More", ""])
    async def test_a_bad_path(self, path, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(ValueError) as refused:
                channel.method(path)
        names(str(refused.value), repr(path), "/package.Service/Method")

    @pytest.mark.parametrize(
        ("type_", "request_", "parts"),
        [
            (None, "text", ["bytes", "str"]),
            (None, 7, ["bytes", "int"]),
            (StringValue, Int32Value(value=7), ["google.protobuf.StringValue", "google.protobuf.Int32Value"]),
            (StringValue, {"value": "x"}, ["google.protobuf.StringValue", "dict"]),
        ],
    )
    async def test_a_request_of_the_wrong_type(self, type_, request_, parts, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(TypeError) as refused:
                await channel.method(METHOD, type_)(request_)
            assert mesh.servers[mesh.hosts[0]].calls == []
        names(str(refused.value), METHOD, *parts)

    async def test_a_request_of_the_wrong_type_in_a_stream_resets_it(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(TypeError, match=METHOD):
                async with bidi(channel).open() as call:
                    await call.send("text")
            await trio.sleep(1)
            (seen,) = mesh.servers[mesh.hosts[0]].calls
            assert seen.status.code is StatusCode.CANCELLED

    async def test_a_streaming_method_called_like_another(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(TypeError) as refused:
                await bidi(channel)(b"")
        names(str(refused.value), METHOD, "method.open")

    async def test_a_method_the_service_does_not_have(self, autojump_clock):
        service = xds_service()
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(AttributeError) as refused:
                channel.stub(service).Lost  # noqa: B018
        names(str(refused.value), service.full_name, "Lost", service.methods[0].name)


def xds_service():
    """Any service that has a descriptor."""
    from envoy.service.discovery.v3 import ads_pb2

    return ads_pb2.DESCRIPTOR.services_by_name["AggregatedDiscoveryService"]


class TestReplies:
    @asynccontextmanager
    async def channel(self, reply, **options):
        async with Mesh.run(1) as mesh, mesh.channel(**options) as channel:
            mesh.servers[mesh.hosts[0]].handlers[METHOD] = unary(reply)
            yield mesh.hosts[0], channel

    async def no_message(self, request, call):
        return b"\xff\xff"

    async def test_one_that_cannot_be_parsed_names_method_and_host(self, autojump_clock):
        async with self.channel(self.no_message) as (host, channel):
            status = await failure(channel.method(METHOD, None, StringValue)(b""))
        assert status.code is StatusCode.INTERNAL
        names(status.message, METHOD, host, "cannot be parsed", "google.protobuf.StringValue")

    async def test_one_in_a_stream_is_named_as_well(self, autojump_clock):
        async with self.channel(self.no_message) as (host, channel):
            chat = channel.method(METHOD, None, StringValue, client_streaming=True, server_streaming=True)
            with pytest.raises(RpcError) as failed:
                async with chat.open() as call:
                    await call.send(b"x")
                    await call.receive()
        names(failed.value.status.message, METHOD, host, "cannot be parsed")

    async def test_one_over_the_limit_says_which_limit_to_raise(self, autojump_clock):
        async def large(request, call):
            return bytes(101)

        async with self.channel(large, max_receive_size=100) as (host, channel):
            status = await failure(ask(channel))
            assert status.code is StatusCode.RESOURCE_EXHAUSTED
            names(status.message, "101 bytes", "limit of 100", "raise max_receive_size")
            assert (await method(channel, "/shop.Cart/Other")(b"")).decode() == host, "the connection goes on"


class TestWrongTypes:
    """Arguments that are not even of the right type are named, with what they should be."""

    async def test_a_target(self):
        with pytest.raises(TypeError, match="target is a text, xds:///NAME, not 5"):
            async with trxds.open_channel(5):
                pass

    async def test_a_bootstrap(self):
        with pytest.raises(TypeError, match="bootstrap is a path, JSON text or a mapping, not list"):
            async with trxds.open_channel("xds:///shop", bootstrap=[]):
                pass

    async def test_a_bootstrap_in_json_is_no_path(self):
        with pytest.raises(trxds.BootstrapError, match="xds_servers"):
            async with trxds.open_channel("xds:///shop", bootstrap="{}"):
                pass

    async def test_a_service(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(TypeError, match="stub takes a ServiceDescriptor"):
                channel.stub(5)

    async def test_a_timeout_that_is_not_a_number(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(TypeError, match="not nan"):
                await ask(channel, timeout=float("nan"))
