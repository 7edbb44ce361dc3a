"""The page's question for a resource: its text in use, the version before, and one that was refused. In memory."""

import json

import pytest
import trio
from envoy.extensions.transport_sockets.tls.v3.common_pb2 import TlsCertificate
from support.mesh import Mesh, ask

from trxds.admin.page.message_text import HIDDEN, message_data
from trxds.admin.page.resource_request import MAX_SHOWN_SIZE, show_resource
from trxds.resources.types import CDS, Parsed
from trxds.testing import resources as xds
from trxds.xds.resource import MAX_KEPT_SIZE, CacheState, Resource, ResourceFailure, UpdateMetadata


async def shown(channel, key):
    """The versions by their roles."""
    told = await show_resource({"shop": channel}, {"key": key})
    assert json.loads(json.dumps(told)) == told
    return {version["role"]: version for version in told["versions"]}


def addresses(version):
    places = json.loads(version["text"])["endpoints"]
    return [
        each["endpoint"]["address"]["socket_address"]["address"] for place in places for each in place["lb_endpoints"]
    ]


async def test_a_resource_is_shown_as_it_is_and_as_it_was_before(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        await ask(channel)
        assert (await shown(channel, "shop/EDS/cart")).keys() == {"in use"}
        mesh.endpoints("cart", mesh.hosts[:1])
        await trio.sleep(1)
        versions = await shown(channel, "shop/EDS/cart")
        assert addresses(versions["before"]) == ["10.0.1.1", "10.0.1.2"]
        assert addresses(versions["in use"]) == ["10.0.1.1"]
        assert (versions["before"]["version"], versions["in use"]["version"]) == ("1", "2")


async def test_a_version_with_the_same_content_is_not_the_version_before(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        await ask(channel)
        mesh.cluster("cart", idle_timeout=9)
        await trio.sleep(1)
        for _ in range(2):  # a state-of-the-world server sends all clusters again
            mesh.cluster("other")
            await trio.sleep(1)
        before = (await shown(channel, "shop/CDS/cart"))["before"]
        assert "idle_timeout" not in before["text"]


async def test_a_refused_resource_is_shown_beside_the_one_in_use(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        mesh.plane.put({**xds.cluster("cart"), "lb_policy": "MAGLEV"})
        await trio.sleep(1)
        versions = await shown(channel, "shop/CDS/cart")
        assert "MAGLEV" in versions["refused"]["text"]
        assert "MAGLEV" not in versions["in use"]["text"]


async def test_a_large_version_is_not_kept_when_another_one_is_in_use(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        cart = xds.cluster("cart")
        mesh.plane.put({**cart, "metadata": {"filter_metadata": {"x": {"y": "z" * MAX_KEPT_SIZE}}}})
        await trio.sleep(1)
        assert (await shown(channel, "shop/CDS/cart"))["in use"]["text"]
        mesh.plane.put(cart)
        await trio.sleep(1)
        before = (await shown(channel, "shop/CDS/cart"))["before"]
        assert (before["text"], before["note"][:25]) == ("", "the program does not keep")


async def test_a_resource_that_is_too_large_for_a_page_says_its_size(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        mesh.plane.put({**xds.cluster("cart"), "alt_stat_name": "z" * MAX_SHOWN_SIZE})
        await trio.sleep(1)
        in_use = (await shown(channel, "shop/CDS/cart"))["in use"]
        assert in_use["text"] == "" and "bytes are too many for a page" in in_use["note"]


@pytest.mark.parametrize("key", ["shop/CDS/nobody", "other/CDS/cart", None, 7])
async def test_a_resource_that_is_not_there_is_an_error(key, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        told = await show_resource({"shop": channel}, {"key": key})
        assert told == {"error": f"there is no resource {key!r} any more"}


def test_private_keys_are_hidden():
    message = TlsCertificate()
    message.private_key.inline_string = "secret"
    message.certificate_chain.inline_string = "public"
    told = message_data("type.googleapis.com/" + TlsCertificate.DESCRIPTOR.full_name, message.SerializeToString())
    assert told["private_key"] == HIDDEN
    assert told["certificate_chain"] == {"inline_string": "public"}


def test_a_type_that_the_program_does_not_know_is_named():
    told = message_data("type.googleapis.com/a.B", b"12345")
    assert told == {"@type": "type.googleapis.com/a.B", "bytes": "5 bytes that this program cannot read"}


def update(version):
    return UpdateMetadata(version, ("type", version.encode()), at=0.0)


def test_a_resource_that_was_dropped_is_the_version_before():
    resource = Resource(CDS, "cart")
    resource.accept(update("1"), Parsed("cart", object()))
    resource.fail(CacheState.DOES_NOT_EXIST, update(""), ResourceFailure("server a", "gone"))
    assert (resource.accepted, resource.previous) == (None, update("1"))
    resource.accept(update("2"), Parsed("cart", object()))
    assert (resource.accepted, resource.previous) == (update("2"), update("1"))


def test_a_resource_that_is_refused_keeps_the_version_before_and_the_one_in_use():
    resource = Resource(CDS, "cart")
    for version in ("1", "2"):
        resource.accept(update(version), Parsed("cart", object()))
    resource.fail(CacheState.NACKED, update("3"), ResourceFailure("server a", "wrong"), drop=False)
    assert (resource.accepted, resource.previous) == (update("2"), update("1"))
