"""A running program says where a call of its own channel would go: `GET /explain`, and `trxds explain --admin`."""

import json
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import pytest
import trio
from click.testing import CliRunner
from support.mesh import METHOD, Mesh, ask
from support.sessions import b64

import trxds.admin
from trxds.cli.main import main
from trxds.cli.running.program import Program, UnreachableError
from trxds.testing import resources as xds


@asynccontextmanager
async def asked(mesh, *more):
    """A program of that channel and these; the value asks it."""
    async with mesh.channel() as channel:
        await ask(channel)
        async with trxds.admin.serve(channel, *more, address="127.0.0.1:0") as address:
            yield Program(address)


async def test_an_explanation_is_that_of_the_programs_own_channel():
    async with Mesh.run(2) as mesh, asked(mesh) as program:
        for host in mesh.hosts:
            calls = [len(server.calls) for server in mesh.servers.values()]
            told = await program.explain("shop", METHOD, [("cookie", f"session={b64(f'{host};cart')}")])
            assert (told["host"], told["outcome"]["kind"]) == (host, "PickedSubchannel")
            assert told["text"].splitlines()[-1] == f"so the RPC goes to {host} (READY)"
            assert [len(server.calls) for server in mesh.servers.values()] == calls


async def test_a_channel_is_named_by_its_key_or_its_target_or_is_the_only_one():
    async with Mesh.run(1) as mesh, mesh.channel() as other:
        async with asked(mesh) as program:
            for name in ("shop", "xds:///shop", ""):
                assert (await program.explain(name, METHOD, []))["host"] == mesh.hosts[0]
        async with asked(mesh, other) as program:
            assert (await program.explain("shop#2", METHOD, []))["method"] == METHOD
            with pytest.raises(UnreachableError, match=r"no channel ''; it has shop \(xds:///shop\), shop#2"):
                await program.explain("", METHOD, [])


async def test_binary_metadata_travels_as_base64():
    async with Mesh.run(1) as mesh, asked(mesh) as program:
        assert (await program.explain("shop", METHOD, [("trace-bin", b"\0\1"), ("a", "b")]))["host"] == mesh.hosts[0]


@pytest.mark.parametrize(
    "question, reason",
    [
        ({"method": "/x"}, "'/x' is not of the form /package.Service/Method"),
        ({"method": METHOD, "metadata": "{"}, "metadata is a JSON list of pairs of texts"),
        ({"method": METHOD, "metadata": '[["a"]]'}, "metadata is a JSON list of pairs of texts"),
        ({"method": METHOD, "metadata": '[["a-bin", "!"]]'}, "metadata is a JSON list of pairs of texts"),
        ({"method": METHOD, "metadata": '[["bad key", "b"]]'}, "its key has a blank at position 3"),
        ({"method": METHOD, "sections": "nodes"}, "no parameter 'sections'; there are channel, method, metadata"),
    ],
)
async def test_an_invalid_explain_request_gets_its_error(question, reason):
    async with Mesh.run(1) as mesh, asked(mesh) as program:
        with pytest.raises(UnreachableError) as caught:
            async with program._answer(f"/explain?{urlencode(question)}"):
                pass
        assert reason in str(caught.value) and "HTTP 400" in str(caught.value)


async def test_a_channel_that_is_closed_says_so():
    async with Mesh.run(1) as mesh:
        async with mesh.channel() as channel:
            pass
        async with trxds.admin.serve(channel, address="127.0.0.1:0") as address:
            with pytest.raises(UnreachableError, match=r"closed.*HTTP 503"):
                await Program(address).explain("shop", METHOD, [])


async def test_the_command_asks_the_program_and_exits_by_what_it_says():
    async def run(*words):
        return await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, ["explain", *words]))

    async with Mesh.run(1) as mesh:
        mesh.route(xds.route("cart", prefix="/shop.Cart/"))
        async with asked(mesh) as program:
            done = await run("shop", METHOD, "--admin", program.address, "--json")
            assert (done.exit_code, json.loads(done.output)["host"]) == (0, mesh.hosts[0])
            done = await run("shop", "/none/M", "--admin", program.address)
            assert done.exit_code == 1 and "no route matches /none/M" in done.output
            done = await run("other", METHOD, "--admin", program.address)
            assert done.exit_code == 3 and "no channel 'other'" in done.output
