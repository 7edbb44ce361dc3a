"""The types of methods by kind agree with their behaviour."""

import inspect
import subprocess
import sys

import pytest
from support.mesh import Mesh

import trxds
from trxds.testing import bidi_streaming, client_streaming, server_streaming, unary

pytestmark = pytest.mark.slow

# A type checker finds an error in each line that ends with "wrong", and in no other.
PROGRAM = """\
from typing import assert_type

import trxds


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


def test_mypy_accepts_and_rejects_calls_by_the_kind_of_method(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    found = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    wrong = [number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("wrong")]
    assert (found, done.stderr) == (wrong, ""), done.stdout


@pytest.mark.parametrize("function", [trxds.Method.__call__, trxds.Method.open])
def test_the_options_of_a_call_are_those_of_a_method(function):
    named = [each.name for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY]
    assert list(trxds.CallOptions.__annotations__) == named
