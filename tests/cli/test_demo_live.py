"""`trxds demo --live`: the page is there while the demo runs; real sockets."""

import re
import signal
import socket
import subprocess
import sys

import pytest
import trio
from click.testing import CliRunner

from trxds.cli.main import main

pytestmark = pytest.mark.slow

ADDRESS = re.compile(rb"the live page is at (http://127\.0\.0\.1:(\d+)/)\n")


async def test_the_live_demo_prints_the_address_of_its_page_and_runs_until_interrupted(sigint):
    command = [sys.executable, "-W", "error", "-m", "trxds", "demo", "--live"]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    with trio.fail_after(60):
        said = b""
        while not (found := ADDRESS.search(said)):
            said += await process.stdout.receive_some()
        async with await trio.open_tcp_stream("127.0.0.1", int(found[2])) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 OK\r\n")
        process.send_signal(signal.SIGINT)
        async with process.stdout:
            said += b"".join([data async for data in process.stdout])
        assert await process.wait() == 0
    assert said.endswith(b"stopped\n")


def test_the_live_demo_with_seconds_plays_one_round_and_prints_the_verdict():
    result = CliRunner().invoke(main, ["demo", "--live", "--seconds", "2"])
    assert ADDRESS.match(result.output.encode())
    assert "Every session stayed, except where its host was removed.\n" in result.output
    assert result.exit_code == 0, result.output


def test_a_port_that_is_taken_is_named_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(main, ["demo", "--live", "--port", str(port)])
    assert result.stderr.startswith(f"Error: 127.0.0.1:{port}: ")
    assert "take another port with --port" in result.stderr
    assert result.exit_code == 1
