"""`trxds call` against servers that others wrote: grpc-go, grpc-java, and grpcio, whose reflection is an older one."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import click.testing
import pytest
import trio
from support import java_peers
from support.go_peers import running
from support.grpcio import PEERS, grpcio_server

from trxds.cli.main import main
from trxds.testing import ManagementServer
from trxds.testing import resources as xds

SERVICE = "grpc.testing.TestService"
BESIDE = {"grpc.channelz.v1.Channelz", "grpc.health.v1.Health", "xds.service.orca.v3.OpenRcaService"}
"""What the server of grpc-java has beside it."""
PATIENCE = 60  # seconds for a test, which takes one

Call = Callable[..., Awaitable[click.testing.Result]]
Server = Callable[[], AbstractAsyncContextManager[Call]]


async def run(*command: str, environ: Mapping[str, str] | None = None) -> click.testing.Result:
    """The command, in a thread, on a loop of its own."""
    runner = click.testing.CliRunner()
    return await trio.to_thread.run_sync(lambda: runner.invoke(main, ["call", *command], env=environ))


@asynccontextmanager
async def go_server() -> AsyncIterator[Call]:
    async with running("backend", "-name", "blue") as peer:
        yield lambda *command: run(peer.address, *command)


@asynccontextmanager
async def python_server() -> AsyncIterator[Call]:
    async with grpcio_server(program=PEERS / "grpcio_described.py") as address:
        yield lambda *command: run(address, *command)


@asynccontextmanager
async def java_server() -> AsyncIterator[Call]:
    async with java_peers.running("Backend", "-name", "blue") as peer:
        yield lambda *command: run(peer.address, *command)


@pytest.fixture(params=["grpc-go", "grpc-java", "grpcio"])
def server(request: pytest.FixtureRequest) -> Server:
    if request.param == "grpcio":
        if importlib.util.find_spec("grpc_reflection") is None:
            missing = "grpcio-reflection is not installed; it is one of the development packages"
            pytest.fail(missing) if "CI" in os.environ else pytest.skip(missing)
        return python_server
    if request.param == "grpc-java":
        request.getfixturevalue("java_programs")
        return java_server
    request.getfixturevalue("go_programs")
    return go_server


async def test_services_are_listed_and_described(server: Server) -> None:
    with trio.fail_after(PATIENCE):
        async with server() as call:
            assert set((await call()).stdout.splitlines()) - BESIDE == {SERVICE}
            assert f"{SERVICE}/FullDuplexCall\n" in (await call(SERVICE)).stdout
            described = (await call(f"{SERVICE}/FullDuplexCall", "--describe")).stdout
    line = "rpc FullDuplexCall(stream grpc.testing.StreamingOutputCallRequest) returns (stream "
    assert described.startswith(line)
    assert "\n  repeated grpc.testing.ResponseParameters response_parameters = 2;\n" in described


async def test_all_kinds_of_calls(server: Server) -> None:
    parameters = '{"response_parameters": [{"size": 1}, {"size": 2}]}'
    cases = {
        "UnaryCall": ('{"payload": {"body": "AAA="}}', None),
        "StreamingOutputCall": (parameters, ["AA==", "AAA="]),
        "StreamingInputCall": ('{"payload": {"body": "AAA="}} {"payload": {"body": "AAAA"}}', [5]),
        "FullDuplexCall": (f"[{parameters}, {parameters}]", ["AA==", "AAA="] * 2),
    }
    with trio.fail_after(PATIENCE):
        async with server() as call:
            for method, (data, expected) in cases.items():
                done = await call(f"{SERVICE}/{method}", "-d", data, "--json", "-H", "user:me")
                assert (done.exit_code, done.stderr) == (0, "")
                replies = [json.loads(line) for line in done.stdout.splitlines()]
                if expected is not None:
                    assert [
                        each.get("aggregatedPayloadSize") or each["payload"]["body"] for each in replies
                    ] == expected
                else:
                    assert len(replies) == 1


async def test_the_status_of_a_failure_is_the_servers(server: Server) -> None:
    data = '{"response_status": {"code": 9, "message": "sold out"}}'
    with trio.fail_after(PATIENCE):
        async with server() as call:
            done = await call(f"{SERVICE}/UnaryCall", "-d", data)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("FAILED_PRECONDITION: sold out (host 127.0.0.1:")
    assert "where such a call goes now:" in done.stderr


async def test_what_the_server_does_not_have_is_said(server: Server) -> None:
    with trio.fail_after(PATIENCE):
        async with server() as call:
            done = await call("grpc.testing.TestServise/UnaryCall")
    assert done.exit_code == 2
    assert f"did you mean '{SERVICE}'?" in done.stderr


async def test_a_session_keeps_its_host_of_grpc_go_through_the_control_plane(go_programs: None) -> None:
    control, names = ManagementServer(), ("red", "green", "blue")
    with trio.fail_after(PATIENCE):
        async with AsyncExitStack() as stack:
            hosts = [(await stack.enter_async_context(running("backend", "-name", name))).address for name in names]
            address = await stack.enter_async_context(control.serve())
            control.put(
                xds.listener("shop", routes="routes", filters=[xds.stateful_session()]),
                xds.routes("routes", xds.route("cart")),
                xds.cluster("cart"),
                xds.endpoints("cart", xds.locality(*hosts)),
            )
            environ = {"GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(xds.bootstrap(address))}
            command = "xds:///shop", f"{SERVICE}/UnaryCall", "--repeat", "9", "--json"
            while len(set((await run(*command, environ=environ)).stdout.splitlines())) < 3:
                pass  # the nine calls were faster than the connection to a host
            sticky = await run(*command, "--session", "-v", environ=environ)
    assert (len(sticky.stdout.splitlines()), len(set(sticky.stdout.splitlines()))) == (9, 1)
    assert "9 calls of one session: 9 to 127.0.0.1:" in sticky.stderr
