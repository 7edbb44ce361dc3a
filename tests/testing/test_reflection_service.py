"""A server of ours that describes its services (A15), asked by the client of `trxds call`."""

from contextlib import asynccontextmanager

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from support.described_shop import CART, POOL, Cart
from support.raw import call

import trxds
from trxds.cli.call.reflection import ReflectionSchema
from trxds.cli.call.schema import find_symbol
from trxds.server.handlers import handlers_of
from trxds.server.protos import REFLECTION_PATHS, ReflectionRequest, ReflectionResponse
from trxds.server.reflection_service import with_reflection
from trxds.testing import MemoryNetwork, serve

HOST = "10.0.0.1:50051"


@asynccontextmanager
async def described(*pools):
    network = MemoryNetwork()
    handlers = with_reflection(handlers_of(CART, Cart("me")), pools)
    async with serve(handlers, address=HOST, network=network):
        yield network


async def ask(network, path=REFLECTION_PATHS[0], **question):
    [reply], _ = await call(network, HOST, path, ReflectionRequest(host="me", **question).SerializeToString())
    return ReflectionResponse.FromString(reply)


async def test_trxds_call_finds_a_method_of_a_described_service(autojump_clock):
    async with described(POOL) as network, trxds.open_channel(f"ipv4:{HOST}", network=network) as channel:
        schema = ReflectionSchema(channel, (), timeout=5)
        assert await schema.services() == ["shop.Cart"]
        assert await schema.load("shop.Cart")
        assert find_symbol(schema.pool, "shop.Item") is not None


@pytest.mark.parametrize("path", REFLECTION_PATHS)
async def test_both_versions_list_the_services_and_reflection_itself(path, autojump_clock):
    async with described(POOL) as network:
        reply = await ask(network, path, list_services="*")
    assert [each.name for each in reply.list_services_response.service] == [
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "shop.Cart",
    ]


async def test_a_file_comes_with_all_that_it_imports_once_each(autojump_clock):
    async with described(POOL) as network:
        by_symbol = await ask(network, file_containing_symbol="shop.Cart.Add")
        by_name = await ask(network, file_by_filename="shop/cart.proto")
    files = [
        FileDescriptorProto.FromString(each).name for each in by_symbol.file_descriptor_response.file_descriptor_proto
    ]
    assert files[0] == "shop/cart.proto"
    assert sorted(files) == [
        "google/protobuf/any.proto",
        "google/protobuf/timestamp.proto",
        "shop/cart.proto",
        "shop/item.proto",
    ]
    assert by_name.file_descriptor_response == by_symbol.file_descriptor_response
    assert (by_symbol.valid_host, by_symbol.original_request.file_containing_symbol) == ("me", "shop.Cart.Add")


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ({"file_containing_symbol": "shop.Cart"}, trxds.StatusCode.NOT_FOUND),
        ({"file_by_filename": "shop/cart.proto"}, trxds.StatusCode.NOT_FOUND),
        ({"all_extension_numbers_of_type": "shop.Item"}, trxds.StatusCode.UNIMPLEMENTED),
        ({}, trxds.StatusCode.UNIMPLEMENTED),
    ],
)
async def test_what_reflection_cannot_answer_is_an_error_of_that_question(question, code, autojump_clock):
    async with described() as network:
        reply = await ask(network, **question)
    assert reply.error_response.error_code == code
