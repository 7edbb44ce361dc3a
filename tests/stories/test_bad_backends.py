"""Errors about a bad host or reply name the thing, its place, and the remedy."""

from contextlib import asynccontextmanager

import pytest
from google.protobuf.wrappers_pb2 import StringValue
from support.bad_peers import GARBAGE, failure, listening, names, says, website
from support.mesh import METHOD, Mesh, ask, method

from trxds import RpcError, StatusCode
from trxds.testing import unary


class TestBackends:
    ADDRESS = "10.0.9.9:50051"

    @asynccontextmanager
    async def channel(self, talk):
        """Open a channel whose only host sends these bytes."""
        async with Mesh.run(0) as mesh, listening(mesh.network, self.ADDRESS, talk):
            mesh.endpoints("cart", [self.ADDRESS])
            async with mesh.channel() as channel:
                yield channel

    async def test_the_error_for_a_host_that_is_down_names_it(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.network.refuse(mesh.hosts[0])
            async with mesh.channel() as channel:
                status = await failure(ask(channel))
        assert status.code is StatusCode.UNAVAILABLE
        names(status.message, mesh.hosts[0], "cannot connect", "Connection refused")

    @pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
    async def test_the_error_for_a_host_that_sends_garbage_names_it(self, data, autojump_clock):
        async with self.channel(says(data)) as channel:
            status = await failure(ask(channel))
        assert status.code is StatusCode.UNAVAILABLE
        names(status.message, self.ADDRESS, "does not speak HTTP/2")

    async def test_the_error_for_a_host_without_http2_settings_names_it(self, autojump_clock):
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
    async def test_the_error_for_a_host_that_is_a_website_names_it(self, http, code, text, autojump_clock):
        async with self.channel(website(http)) as channel:
            status = await failure(ask(channel))
        assert status.code is code
        names(status.message, self.ADDRESS, text, "check that a gRPC server listens there")

    async def test_the_error_for_an_unimplemented_method_names_it(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            mesh.servers[mesh.hosts[0]].fallback = None
            status = await failure(ask(channel))
        assert status.code is StatusCode.UNIMPLEMENTED
        names(status.message, METHOD)


class TestReplies:
    @asynccontextmanager
    async def channel(self, reply, **options):
        async with Mesh.run(1) as mesh, mesh.channel(**options) as channel:
            mesh.servers[mesh.hosts[0]].handlers[METHOD] = unary(reply)
            yield mesh.hosts[0], channel

    async def no_message(self, request, call):
        return b"\xff\xff"

    async def test_the_error_for_an_unparsable_reply_names_method_and_host(self, autojump_clock):
        async with self.channel(self.no_message) as (host, channel):
            status = await failure(channel.method(METHOD, None, StringValue)(b""))
        assert status.code is StatusCode.INTERNAL
        names(status.message, METHOD, host, "cannot be parsed", "google.protobuf.StringValue")

    async def test_the_error_for_an_unparsable_reply_in_a_stream_names_method_and_host(self, autojump_clock):
        async with self.channel(self.no_message) as (host, channel):
            chat = channel.method(METHOD, None, StringValue, client_streaming=True, server_streaming=True)
            with pytest.raises(RpcError) as failed:
                async with chat.open() as call:
                    await call.send(b"x")
                    call.done_sending()
                    await call.receive()
        names(failed.value.status.message, METHOD, host, "cannot be parsed")

    async def test_the_error_for_a_reply_over_the_limit_names_the_option_to_raise(self, autojump_clock):
        async def large(request, call):
            return bytes(101)

        async with self.channel(large, max_receive_size=100) as (host, channel):
            status = await failure(ask(channel))
            assert status.code is StatusCode.RESOURCE_EXHAUSTED
            names(status.message, "101 bytes", "limit of 100", "raise max_receive_size")
            assert (await method(channel, "/shop.Cart/Other")(b"")).decode() == host, "the connection goes on"
