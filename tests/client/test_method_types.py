"""The types of methods by kind agree with their behaviour."""

import inspect
import json
import os
import shutil
import subprocess
import sys

import pytest
from support.mesh import Mesh
from support.pyright import run_pyright

import trxds
from trxds.testing import bidi_streaming, client_streaming, server_streaming, unary

pytestmark = pytest.mark.slow

# A type checker finds an error in each line that ends with "wrong", and in no other.
PROGRAM = """\
from typing import assert_type

from google.protobuf.wrappers_pb2 import Int64Value, StringValue

import trxds
import trxds.aio
import trxds.sync


def number(payload: bytes) -> int:
    return int(payload)


def text(number: int) -> bytes:
    return b"%d" % number


async def right(channel: trxds.Channel) -> None:
    double = channel.unary_unary("/Numbers/Double", text, number)
    assert_type(await double(2, timeout=1), int)
    assert_type(await double.with_call(2, timeout=1), tuple[int, trxds.CompletedCall])
    count = channel.unary_stream("/Numbers/Count", text, number)
    async with count.open(2, wait_for_ready=True) as replies:
        assert_type(replies, trxds.ResponseStream[int])
        assert_type([reply async for reply in replies], list[int])
    async with count.open() as both:
        assert_type(both, trxds.Call[int, int])
    total = channel.stream_unary("/Numbers/Sum", text, number)
    assert_type(await total([1, 2]), int)
    assert_type(await total.with_call([1, 2]), tuple[int, trxds.CompletedCall])
    async with channel.stream_stream("/Numbers/Double", text, number).open(metadata=[("a", "b")]) as call:
        assert_type(await call.send(2), bool)
        assert_type(await call.receive(), int | None)


async def inferred(channel: trxds.Channel) -> None:
    echo = channel.unary_unary("/Echo/Echo", bytes, bytes)
    assert_type(echo, trxds.UnaryUnary[bytes, bytes])
    assert_type(channel.stream_stream("/Echo/Echo", bytes, number), trxds.StreamStream[bytes, int])
    assert_type(channel.method("/Echo/Echo"), trxds.Method[bytes, bytes])
    measure = channel.method("/Texts/Measure", StringValue, Int64Value)
    assert_type(measure, trxds.Method[StringValue, Int64Value])
    assert_type(await measure(StringValue(value="a"), compression="gzip"), Int64Value)
    assert_type(channel.method("/Numbers/Double", text, number), trxds.Method[int, int])


def in_threads(channel: trxds.sync.Channel, compression: trxds.Compression) -> None:
    assert_type(channel.unary_unary("/Echo/Echo", bytes, bytes)(b"", compression=compression), bytes)
    assert_type(channel.method("/Texts/Measure", StringValue, Int64Value)(StringValue()), Int64Value)


async def in_asyncio(channel: trxds.aio.Channel) -> None:
    assert_type(await channel.unary_unary("/Echo/Echo", bytes, bytes)(b"", timeout=1), bytes)
    measure = channel.method("/Texts/Measure", StringValue, Int64Value)
    assert_type(await measure.with_call(StringValue()), tuple[Int64Value, trxds.CompletedCall])
    async with trxds.aio.open_channel("xds:///shop", max_receive_size=1) as opened, opened.session() as session:
        assert_type(opened, trxds.aio.Channel)
        assert_type(session, trxds.aio.Session)
        assert_type(session.unary_unary("/Numbers/Double", text, number), trxds.UnaryUnary[int, int])
        async with session.unary_stream("/Numbers/Count", text, number).open(2) as replies:
            assert_type([reply async for reply in replies], list[int])
        async with session.stream_stream("/Numbers/Double", text, number).open() as call:
            assert_type(await call.send(2), bool)
            assert_type(await call.receive(), int | None)
        assert_type([event async for event in session.events()], list[trxds.SessionEvent])


async def not_right_in_asyncio(channel: trxds.aio.Channel) -> None:
    await channel.unary_unary("/Echo/Echo", bytes, bytes)(2)  # wrong
    await channel.unary_stream("/Numbers/Count", text, number)(2)  # wrong
    async with trxds.aio.open_channel("xds:///shop", max_size=1):  # wrong
        pass


async def not_right(channel: trxds.Channel) -> None:
    double = channel.unary_unary("/Numbers/Double", text, number)
    await double("2")  # wrong
    await double(2, tiemout=1)  # wrong
    count = channel.unary_stream("/Numbers/Count", text, number)
    await count(2)  # wrong
    await count.with_call(2)  # wrong
    await double.with_call("2")  # wrong
    async with count.open(2) as replies:
        await replies.send(2)  # wrong
    await channel.unary_unary("/Echo/Echo", bytes, bytes)(2)  # wrong
    await channel.method("/Texts/Measure", StringValue, Int64Value)(Int64Value())  # wrong
    await double(2, compression="zstd")  # wrong
    channel.unary_unary("/Echo/Echo", str, bytes)  # wrong
    async with trxds.open_channel("xds:///shop", compression="gzp"):  # wrong
        pass
"""


def text(number):
    return b"%d" % number


@pytest.fixture
async def channel(autojump_clock):
    async def double(number, call):
        return number * 2

    async def count(number, call):
        for one in range(number):
            yield one

    async def total(numbers, call):
        return sum([number async for number in numbers])

    async def doubles(numbers, call):
        async for number in numbers:
            yield number * 2

    handlers = {
        "/Numbers/Double": unary(double, int, text),
        "/Numbers/Count": server_streaming(count, int, text),
        "/Numbers/Sum": client_streaming(total, int, text),
        "/Numbers/Doubles": bidi_streaming(doubles, int, text),
    }
    async with Mesh.run(1) as mesh:
        mesh.servers[mesh.hosts[0]].handlers.update(handlers)
        async with mesh.channel() as channel:
            yield channel


async def test_every_kind_of_method_does_what_its_type_says(channel, autojump_clock):
    assert await channel.unary_unary("/Numbers/Double", text, int)(2) == 4
    async with channel.unary_stream("/Numbers/Count", text, int).open(3) as replies:
        assert [number async for number in replies] == [0, 1, 2]
    assert await channel.stream_unary("/Numbers/Sum", text, int)([1, 2, 3]) == 6
    for method, request in (
        (channel.unary_unary("/Numbers/Double", text, int), 3),
        (channel.stream_unary("/Numbers/Sum", text, int), [1, 2, 3]),
    ):
        reply, call = await method.with_call(request)
        assert reply == 6 and call.status.ok and call.peer
    async with channel.stream_stream("/Numbers/Doubles", text, int).open() as call:
        await call.send(4)
        assert await call.receive() == 8


async def test_a_method_of_bytes_takes_nothing_else(channel, autojump_clock):
    with pytest.raises(TypeError, match="/Numbers/Double takes bytes, not int"):
        await channel.unary_unary("/Numbers/Double", bytes, bytes)(3)
    assert await channel.unary_unary("/Numbers/Double", bytes, bytes)(b"3") == b"6"


def wrong_lines():
    return [number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("wrong")]


@pytest.mark.long
def test_mypy_accepts_and_rejects_calls_by_the_kind_of_method(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    found = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    assert (found, done.stderr) == (wrong_lines(), ""), done.stdout


@pytest.mark.long
def test_pyright_accepts_and_rejects_the_same_lines(tmp_path):
    if not (shutil.which("node") and run_pyright("--version").returncode == 0) and os.environ.get("CI") is None:
        pytest.skip("pyright or node is missing, so pyright was not asked; CI does not let that pass")
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, "utf-8")
    settings = {"include": [str(file)], "extraPaths": sys.path}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    done = run_pyright("--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path))
    errors = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    found = sorted({each["range"]["start"]["line"] + 1 for each in errors})
    assert found == wrong_lines(), done.stdout


@pytest.mark.parametrize("function", [trxds.Method.__call__, trxds.Method.open])
def test_the_options_of_a_call_are_those_of_a_method(function):
    named = [each.name for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY]
    assert list(trxds.CallOptions.__annotations__) == named
