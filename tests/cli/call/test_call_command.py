"""The options of `trxds call`, its exit statuses, and stdin: the command itself, over real sockets where it calls."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from support.certificates import Files
from support.described_shop import CART, FILES, Cart, reflection

from trxds import StatusCode
from trxds.cli.call import compile_protos
from trxds.cli.main import main
from trxds.testing import serve

ROOT = Path(__file__).parents[3]
NOWHERE = "127.0.0.1:1"

PROTO = """syntax = "proto3";
package shop;
import "parts/item.proto";
service Cart { rpc Add(Item) returns (Item); }
"""
ITEM = 'syntax = "proto3";\npackage shop;\nmessage Item { string sku = 1; }\n'


def run(*command, data=None):
    done = CliRunner().invoke(main, ["call", *map(str, command)], input=data)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def said(*command):
    """The exit status, and the error without click's usage."""
    done = run(*command)
    return done.exit_code, done.output.partition("Error: ")[2].strip()


@pytest.fixture
def descriptor_set(tmp_path):
    file = tmp_path / "shop.binpb"
    file.write_bytes(FileDescriptorSet(file=FILES.values()).SerializeToString())
    return file


@pytest.fixture
def protos(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/item.proto").write_text(ITEM)
    (tmp_path / "cart.proto").write_text(PROTO)
    return tmp_path


# -- the types from files


def test_files_are_listed_without_asking_anybody(descriptor_set):
    done = run(NOWHERE, "--descriptor-set", descriptor_set)
    assert (done.exit_code, done.output) == (0, "shop.Cart\n")
    done = run(NOWHERE, "shop.Cart", "--list", "--json", "--descriptor-set", descriptor_set)
    assert json.loads(done.output) == [f"shop.Cart/{method.name}" for method in CART.methods]


def test_a_proto_file_is_compiled_with_its_imports(protos):
    done = run(NOWHERE, "shop.Cart/Add", "--describe", "--proto", protos / "cart.proto", "-I", protos)
    assert done.exit_code == 0
    assert "rpc Add(shop.Item) returns (shop.Item);" in done.output and "string sku = 1;" in done.output


def test_an_error_in_a_proto_file_is_protocs_own(protos):
    (protos / "parts/item.proto").write_text("message Item {")
    code, error = said(NOWHERE, "--proto", protos / "cart.proto", "-I", protos)
    assert (code, "parts/item.proto:1:15: Reached end of input" in error) == (2, True)


def test_without_protoc_the_extra_is_named(protos, monkeypatch):
    monkeypatch.setattr(compile_protos, "find_spec", lambda name: None)
    assert said(NOWHERE, "--proto", protos / "cart.proto") == (
        2,
        "--proto needs protoc, which comes with grpcio-tools: pip install 'trxds[generate]'",
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no descriptor set; make one with protoc --include_imports --descriptor_set_out"),
        (b"syntax", "is no descriptor set"),
        (FileDescriptorSet(file=[FILES["shop/item.proto"]]).SerializeToString(), None),
        (
            FileDescriptorSet(file=[FILES["shop/cart.proto"]]).SerializeToString(),
            "shop/cart.proto cannot be used: it imports shop/item.proto, which is missing; "
            "make it with protoc's --include_imports",
        ),
    ],
)
def test_a_descriptor_set_that_cannot_be_used_is_named_with_the_remedy(content, words, tmp_path):
    file = tmp_path / "x.binpb"
    file.write_bytes(content)
    code, error = said(NOWHERE, "--descriptor-set", file)
    assert (code, error) == (0, "") if words is None else (code, words in error, str(file) in error) == (2, True, True)


# -- wrong command lines


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--list", "--describe"], "--list and --describe cannot be used together; leave one out"),
        (["--list", "-d", "{}"], "-d is for a call; name METHOD, without --list and --describe"),
        (["-H", "secret"], "-H number 1 has no colon; write KEY:VALUE"),
        (["-H", "key:a\nb"], "metadata 'key': its value has a line end at position 1"),
        (["-H", "k-bin:***"], "-H number 1: the value of 'k-bin' is not base64"),
        (["-I", "."], "-I is for --proto; name a .proto file too"),
        (["-H", "a b:c"], "-H number 1: its key has a blank at position 1"),
        (["--credentials", "insecure", "--roots", __file__], "--roots is for TLS; say --credentials tls, or xds"),
        (["--certificate", __file__], "--certificate needs --private-key, the file of its key"),
        (["--private-key", __file__], "--private-key needs --certificate, the file of its certificate"),
        (["--roots", __file__], f"--roots: cannot use the roots of {__file__}: "),
        (
            ["--certificate", __file__, "--private-key", __file__],
            f"--certificate, --private-key: cannot use the certificate of {__file__} with the key of {__file__}: ",
        ),
        (["--server-name", "spiffe://mesh/cart"], "--server-name: a SPIFFE ID is proved by a bundle map"),
        (["--authority", "a b"], "--authority 'a b' is no host or host:port"),
        (["--service-config", __file__], "--service-config: no valid JSON at line 1"),
        (["--session-key", __file__], "--session-key is for --session-token and --print-token"),
        (["--session-token", "s3cret"], "--session-token or --session-key: "),
        (["-d", '{"\udcff": 1}'], "-d is no UTF-8 text"),
        # YAML, by which errors get their lines, does not take this character.
        (["-d", '{"\x7f": 1}'], "-d: line 1: "),
        (["-d", "@/nowhere"], "-d: /nowhere: No such file or directory"),
        (["--timeout", "0"], "--timeout"),
        (["--timeout", "nan"], "'--timeout': 'nan' is no time"),
        (["--within", "nan"], "'--within': 'nan' is no time"),
        (["--bootstrap", __file__], "--bootstrap cannot be used with the target"),
    ],
)
def test_a_wrong_option_is_named_without_its_secret(options, words, descriptor_set):
    code, error = said(NOWHERE, "shop.Cart/Add", "--descriptor-set", descriptor_set, *options)
    assert (code, words in error) == (2, True), error
    assert "s3cret" not in error


@pytest.mark.parametrize("options", [["--service-config", "FILE"], ["-H", "@FILE"], ["-d", "@FILE"]])
def test_a_file_that_is_no_utf_8_is_named(options, descriptor_set, tmp_path):
    file = tmp_path / "x"
    file.write_bytes(b"\xff\xfe")
    options = [each.replace("FILE", str(file)) for each in options]
    code, error = said(NOWHERE, "shop.Cart/Add", "--descriptor-set", descriptor_set, *options)
    assert (code, f"{file} is no UTF-8 text" in error) == (2, True), error


@pytest.mark.parametrize("command", ["call", "explain"])
def test_a_method_that_is_no_utf_8_is_a_usage_error(command):
    done = CliRunner().invoke(main, [command, NOWHERE, "/a.B/\udcff"])
    assert (done.exit_code, "it is no UTF-8 text" in done.stderr) == (2, True), done.stderr


def test_a_very_long_name_is_cut_in_its_error(descriptor_set):
    code, error = said(NOWHERE, "x" * 20_000, "--descriptor-set", descriptor_set)
    assert code == 2 and f"there is no '{'x' * 100}' and 19900 characters more; without METHOD" in error


def test_an_unknown_scheme_names_no_argument_of_python():
    code, error = said("foo:///x", "shop.Cart/Add")
    assert code == 2 and "unknown scheme 'foo'; trxds knows xds, dns, ipv4, ipv6, unix, unix-abstract" in error
    assert "resolvers=" not in error


def test_errors_of_protoc_come_without_the_log_of_its_library(tmp_path):
    file = tmp_path / "x.proto"
    file.write_text("a: [\n")
    code, error = said(NOWHERE, "shop.Cart/Add", "--proto", file)
    assert code == 2 and 'x.proto:1:1: Expected top-level statement (e.g. "message").' in error
    assert "absl" not in error and "W0000" not in error


def test_a_host_that_nobody_listens_at_is_exit_status_3(descriptor_set):
    done = run(NOWHERE, "shop.Cart/Add", "--descriptor-set", descriptor_set)
    assert done.exit_code == 3
    assert done.stderr.startswith("UNAVAILABLE: no host can be reached; the last error: 127.0.0.1:1: cannot connect")
    assert "so the RPC fails, unless it waits for ready" in done.stderr


# -- over real sockets


@pytest.fixture
async def shop():
    async with serve(reflection()) as server:
        server.add_service(CART, Cart("here"))
        yield server


async def in_thread(*command, data=None):
    return await trio.to_thread.run_sync(lambda: run(*command, data=data))


async def test_requests_come_from_stdin(shop):
    done = await in_thread(shop.address, "shop.Cart/Fill", "-d", "-", "--json", data='{"count": 1}\n{"count": 2}\n')
    assert (done.exit_code, done.stdout, done.stderr) == (0, '{"count":3}\n', "")


async def test_a_bad_request_on_stdin_ends_the_call(shop):
    done = await in_thread(shop.address, "shop.Cart/Fill", "-d", "-", data='{"count": 1}\n{"count": "x"}\n')
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "Error: stdin: line 2: count: is 'x'; write a whole number\n"


async def test_a_target_without_a_control_plane_is_sticky_by_its_service_config(shop, tmp_path):
    file = tmp_path / "service_config.json"
    file.write_text('{"statefulSession": {"cookie": {"name": "cart"}}}')
    done = await in_thread(shop.address, "shop.Cart/Add", "--session", "-v", "--service-config", file)
    assert (done.exit_code, f"session by cart: on {shop.address}" in done.stderr) == (0, True)


async def test_a_host_with_tls_is_reached_by_the_files_of_its_roots(tmp_path):
    files = Files(tmp_path, "cart.example")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.path("server-cert"), files.path("server-key"))
    context.set_alpn_protocols(["h2"])
    async with serve(reflection(), tls=context) as server:
        server.add_service(CART, Cart("here"))
        options = "--roots", files.path("roots"), "--server-name", "cart.example"
        done = await in_thread(server.address, "shop.Cart/Add", *options)
        assert (done.exit_code, done.stdout) == (0, '{\n  "sku": "@here"\n}\n')
        done = await in_thread(server.address, "shop.Cart/Add", "--credentials", "tls")
        assert (done.exit_code, "certificate verify failed" in done.stderr) == (3, True)


@asynccontextmanager
async def process_of(*command, **pipes):
    """The command in a process of its own, because only there stdin is read as it comes."""
    begin = partial(
        trio.run_process,
        [sys.executable, "-m", "trxds", "call", *command],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        **pipes,
    )
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            yield await nursery.start(begin)


async def test_a_reply_is_printed_while_the_requests_still_come(shop):
    command = shop.address, "shop.Cart/Talk", "-d", "-", "--json"
    async with process_of(*command, stdout=subprocess.PIPE) as process:
        for sku in ("a", "b"):
            await process.stdin.send_all(json.dumps({"sku": sku}).encode())
            assert await process.stdout.receive_some() == f'{{"sku":"{sku.upper()}"}}\n'.encode()
        await process.stdin.aclose()
        assert await process.stdout.receive_some() == b""
        assert await process.wait() == 0


async def test_a_failed_call_ends_the_command_though_stdin_is_open(shop):
    async def refuse(call):
        call.abort(StatusCode.PERMISSION_DENIED, "not you")

    shop.handlers["/shop.Cart/Talk"] = refuse
    command = shop.address, "shop.Cart/Talk", "-d", "-", "--no-explain"
    async with process_of(*command, stderr=subprocess.PIPE) as process:
        said = b"".join([chunk async for chunk in process.stderr])
        assert await process.wait() == 1
    assert said.decode() == f"PERMISSION_DENIED: not you (host {shop.address})\n"
