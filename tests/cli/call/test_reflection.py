"""The message types of a call come from the server, however it describes them."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from support.described_shop import CART, POOL, Item, call_in, described_mesh, reflection

from trxds import StatusCode
from trxds.cli.call.reflection import MAX_FILES
from trxds.cli.call.schema import CallError
from trxds.server.protos import ReflectionRequest, ReflectionResponse

ADD = "shop.Cart/Add"
(PATH,) = reflection()


def answering(answer):
    """The handler of a server that answers each question so."""

    async def handler(call):
        async for message in call:
            response = ReflectionResponse()
            answer(ReflectionRequest.FromString(message), response)
            await call.send(response.SerializeToString())

    return {PATH: handler}


async def refusal(handlers, **more):
    """What the command says of a server with such a reflection, and its exit status."""
    async with described_mesh(handlers=handlers) as mesh:
        with pytest.raises(CallError) as refused:
            await call_in(mesh, ADD, **more)
    return str(refused.value), refused.value.code


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
@pytest.mark.parametrize("one_by_one", [False, True])
async def test_a_server_describes_its_types_at_once_or_file_by_file(version, one_by_one, capsys, autojump_clock):
    async with described_mesh(handlers=reflection(version, one_by_one=one_by_one)) as mesh:
        assert await call_in(mesh, ADD, data='{"added": "2026-01-31T12:00:00Z"}') == 0
    assert '"sku": "@10.0.1.1:50051"' in capsys.readouterr().out


async def test_the_types_of_a_call_are_asked_for_on_one_host(autojump_clock):
    async with described_mesh(3, reflection(one_by_one=True)) as mesh:
        assert await call_in(mesh, ADD) == 0
        asked = [server for server in mesh.servers.values() if any("reflection" in call.path for call in server.calls)]
        assert len(asked) == 1


async def test_protobufs_own_files_need_not_be_at_the_server(autojump_clock):
    without = ("google/protobuf/timestamp.proto", "google/protobuf/any.proto")
    async with described_mesh(handlers=reflection(one_by_one=True, without=without)) as mesh:
        assert await call_in(mesh, ADD, data='{"added": "2026-01-31T12:00:00Z"}') == 0


async def test_a_file_that_the_server_lacks_is_named():
    said, code = await refusal(reflection(one_by_one=True, without=["shop/item.proto"]))
    assert "shop/cart.proto cannot be used: it imports shop/item.proto, which is missing" in said
    assert (code, "--proto FILE or --descriptor-set FILE" in said) == (1, True)


async def test_an_import_that_no_type_needs_may_be_missing(autojump_clock):
    def answer(request, response):
        for name in ("item", "cart"):
            file = FileDescriptorProto()
            POOL.FindFileByName(f"shop/{name}.proto").CopyToProto(file)
            if name == "cart":
                file.dependency.insert(0, "shop/options.proto")
                file.public_dependency.append(1)
            response.file_descriptor_response.file_descriptor_proto.append(file.SerializeToString())
        if request.file_by_filename:
            response.error_response.error_code = StatusCode.NOT_FOUND

    async with described_mesh(handlers=answering(answer)) as mesh:
        assert await call_in(mesh, ADD) == 0


async def test_a_server_without_reflection_is_named_with_the_remedy(autojump_clock):
    said, code = await refusal({})
    assert said == (
        "host 10.0.1.1:50051 has no server reflection, neither v1 nor v1alpha; "
        "give the types by --proto FILE or --descriptor-set FILE"
    )
    assert code == 1


async def test_a_server_that_names_ever_more_files_is_left(autojump_clock):
    def answer(request, response):
        number = int(request.file_by_filename or 0)
        for name in range(number, number + 2000):
            file = FileDescriptorProto(name=str(name), dependency=[str(name + 1)])
            response.file_descriptor_response.file_descriptor_proto.append(file.SerializeToString())

    said, _ = await refusal(answering(answer))
    assert said.startswith(f"server reflection: shop.Cart needs more than {MAX_FILES:,} files or ")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([b"\xff"], "sent bytes that are no file descriptor"),
        ([FileDescriptorProto(name="a", dependency=["a"]).SerializeToString()], "these files import each other: a, a"),
        ([FileDescriptorProto(name="a").SerializeToString()], "there is no 'shop.Cart'"),
        ([], "there is no 'shop.Cart'"),
    ],
)
async def test_a_description_that_makes_no_sense_is_said(files, words, autojump_clock):
    def answer(request, response):
        response.file_descriptor_response.file_descriptor_proto.extend(files)

    said, _ = await refusal(answering(answer))
    assert words in said


async def test_a_refusal_of_the_server_is_shown_without_its_control_characters(autojump_clock):
    def answer(request, response):
        response.error_response.error_code, response.error_response.error_message = 7, "not\x1b[31m you"

    said, code = await refusal(answering(answer))
    assert "refuses shop.Cart: PERMISSION_DENIED: not\\x1b[31m you" in said
    assert code == 1


async def test_a_stream_that_ends_early_is_said(autojump_clock):
    async def hang_up(call):
        await call.receive()

    said, _ = await refusal({PATH: hang_up})
    assert said.startswith("server reflection ended without an answer")


async def test_a_packed_type_is_asked_for_when_it_comes(capsys, autojump_clock):
    async with described_mesh() as mesh:
        assert await call_in(mesh, ADD, data='{"sku": "packed"}') == 0
    out = capsys.readouterr().out
    assert '"@type": "type.googleapis.com/shop.Note",\n    "text": "inside"' in out
    assert '"@type": "type.googleapis.com/shop.Unknown",\n        "@bytes": ""' in out


async def test_a_packed_type_of_a_request_is_asked_for(autojump_clock):
    async with described_mesh() as mesh:
        data = '{"extra": {"@type": "type.googleapis.com/shop.Note", "text": "x"}}'
        assert await call_in(mesh, ADD, data=data) == 0


@pytest.mark.parametrize(("data", "code"), [('{"sku": "a"}', 0), ('{"sku": "nothing"}', 1)])
async def test_a_service_config_may_hedge_all_calls_and_so_reflection_too(data, code, autojump_clock):
    hedging = {"maxAttempts": 2, "hedgingDelay": "0.5s"}
    config = {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [{"name": [{}], "hedgingPolicy": hedging}],
    }
    async with described_mesh(2) as mesh:
        options = {"bootstrap": None, "service_config": config}
        target = f"ipv4:{','.join(mesh.hosts)}"
        assert await call_in(mesh, ADD, data=data, target=target, options=options) == code
        with pytest.raises(CallError, match=r"there is no 'shop.Crat'"):
            await call_in(mesh, "shop.Crat/Add", target=target, options=options)


async def test_a_request_for_a_service_is_a_wrong_command_line(autojump_clock):
    async with described_mesh() as mesh:
        with pytest.raises(CallError, match=r"shop.Cart is a service, and -d is for a method; it has shop.Cart/Add, "):
            await call_in(mesh, "shop.Cart", data="{}")


# -- listing and describing


@pytest.mark.parametrize(
    ("symbol", "lines"),
    [
        ("", ["shop.Cart"]),
        ("shop.Cart", ["shop.Cart/Add", "shop.Cart/List", "shop.Cart/Fill", "shop.Cart/Talk"]),
        ("/shop.Cart/Add", ["shop.Cart/Add"]),
    ],
)
async def test_services_and_their_methods_are_listed(symbol, lines, capsys, autojump_clock):
    async with described_mesh() as mesh:
        assert await call_in(mesh, symbol, action="list") == 0
    assert capsys.readouterr().out.splitlines() == lines


async def test_a_service_in_place_of_a_method_lists_its_methods(capsys, autojump_clock):
    async with described_mesh() as mesh:
        assert await call_in(mesh, "shop.Cart") == 0
    assert capsys.readouterr().out.splitlines() == [f"shop.Cart/{method.name}" for method in CART.methods]


async def test_a_method_is_described_with_a_request_to_begin_with(capsys, autojump_clock):
    async with described_mesh() as mesh:
        assert await call_in(mesh, "shop.Cart.Talk", action="describe") == 0
    out = capsys.readouterr().out
    assert out.startswith("rpc Talk(stream shop.Item) returns (stream shop.Item);\n\nmessage shop.Item {\n")
    for line in (
        "  repeated string tags = 3;",
        "  google.protobuf.Timestamp added = 4;",
        "  oneof price {\n    int64 cents = 6;\n    string offer = 7;\n  }",
        "  map<string, int32> sizes = 10;",
    ):
        assert f"{line}\n" in out
    request = out.splitlines()[-1].removeprefix("// -d '").removesuffix("'")
    assert request.startswith('{"sku":"","count":0,"tags":[""],"added":"2026-01-31T12:00:00Z","extra":')
    assert '"cents":"0"' in request and '"offer"' not in request


@pytest.mark.parametrize("symbol", ["shop.Kind", "shop.Item", "shop.Cart", ""])
async def test_other_symbols_are_described_as_proto_files_have_them(symbol, capsys, autojump_clock):
    async with described_mesh() as mesh:
        assert await call_in(mesh, symbol, action="describe") == 0
    first = {"shop.Kind": "enum shop.Kind {", "shop.Item": "message shop.Item {"}.get(symbol, "service shop.Cart {")
    assert capsys.readouterr().out.splitlines()[0] == first


@pytest.mark.parametrize(
    ("symbol", "words"),
    [
        ("shop.Crat/Add", "there is no 'shop.Crat'; without METHOD the services are listed; did you mean 'shop.Cart'?"),
        ("shop.Cart/Ad", "shop.Cart has no method 'Ad'; it has Add, List, Fill, Talk; did you mean 'Add'?"),
        ("shop.Item/Add", "shop.Item is no service; write METHOD as package.Service/Method"),
        ("shop.Item", "shop.Item is no method; --describe shows what it is"),
    ],
)
async def test_a_method_that_is_not_there_is_a_wrong_command_line(symbol, words, autojump_clock):
    async with described_mesh() as mesh:
        with pytest.raises(CallError) as refused:
            await call_in(mesh, symbol)
    assert (str(refused.value), refused.value.code) == (words, 2)


def test_the_tests_own_messages_are_those_that_servers_describe():
    assert Item.DESCRIPTOR.file.pool is POOL
