"""`trxds live`: one page for several programs. Who may read it, and what is handed on."""

import json
import ssl
from contextlib import asynccontextmanager
from socket import create_server

import pytest
import trio
from click.testing import CliRunner
from support.certificates import Files
from support.mesh import METHOD, Mesh, ask
from trio_websocket import ConnectionClosed, HandshakeError, wrap_client_stream

import trxds.admin
import trxds.testing
from trxds.admin import Admin
from trxds.cli.main import main
from trxds.cli.running.access import Access
from trxds.cli.running.page_relay import named_programs, serve_programs
from trxds.cli.tls_options import tls_credentials

TOKEN = "the-token-of-the-page-itself"
ADMIN = Admin("127.0.0.1:0", TOKEN)


@asynccontextmanager
async def program(token=""):
    """A program with one channel that has called once; its admin address."""
    async with (
        Mesh.run(1) as mesh,
        mesh.channel() as channel,
        trxds.admin.serve(channel, address=Admin("127.0.0.1:0", token)) as address,
    ):
        await ask(channel)
        yield address


def served(*texts, token="", tls=None):
    """The page of these programs; the value is its URL."""
    return serve_programs(named_programs(texts, Access(token, tls)), ADMIN)


@asynccontextmanager
async def page(url, query="", token=TOKEN, origin=None):
    """A WebSocket as the page opens it."""
    host = url.removeprefix("http://").partition("/")[0]
    offers = ["trxds.admin", *([f"token.{token}"] if token else [])]
    headers = [(b"origin", (origin or f"http://{host}").encode())]
    name, _, port = host.partition(":")
    # The stream is ours, because the library leaves it open when it is refused.
    async with await trio.open_tcp_stream(name, int(port)) as stream, trio.open_nursery() as nursery:
        options = {"subprotocols": offers, "extra_headers": headers, "max_message_size": 2**24}
        yield await wrap_client_stream(nursery, stream, host, f"/state{query}", **options)
        nursery.cancel_scope.cancel()


async def heard(socket):
    with trio.fail_after(60):
        return json.loads(await socket.get_message())


async def test_the_page_hears_of_the_programs_and_reads_each_by_its_number():
    async with program() as one, program() as other, served(f"cart={one}", other) as url:
        assert url.endswith(f"/#token={TOKEN}")
        async with page(url) as socket:
            assert await heard(socket) == {"programs": ["cart", other]}
        for number in (0, 1):
            async with page(url, f"?program={number}") as socket:
                assert "hello" in await heard(socket)
                assert (await heard(socket))["snapshot"]["channels"]["shop"]["calls"] == 1


async def test_questions_of_the_page_are_answered_by_the_program():
    async with program() as address, served(address) as url, page(url, "?program=0") as socket:
        question = {"id": 7, "channel": "shop", "method": METHOD, "metadata": []}
        await socket.send_message(json.dumps({"explain": question}))
        while "explained" not in (told := await heard(socket)):
            pass
        assert (told["explained"]["id"], told["explained"]["verdict"]) == (7, "goes")


async def test_nothing_but_the_page_is_served_over_http():
    async with served("127.0.0.1:1") as url:
        host, port = url.removeprefix("http://").partition("/")[0].split(":")
        for path, status in (("/", "200 OK"), ("/explain", "404 Not Found"), ("/state", "404 Not Found")):
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                head = (await stream.receive_some()).decode()
                assert head.startswith(f"HTTP/1.1 {status}\r\n")


async def test_the_programs_own_token_is_the_command_s_and_never_the_page_s():
    secret = "the-token-of-the-program"
    async with program(secret) as address, served(address, token=secret) as url:
        async with page(url, "?program=0") as socket:
            assert "hello" in await heard(socket)
        with pytest.RaisesGroup(HandshakeError, flatten_subgroups=True, allow_unwrapped=True):
            async with page(url, "?program=0", token=secret):
                raise AssertionError("it was let in")


@pytest.mark.parametrize(
    ("token", "origin"), [("", None), ("wrong-token-wrong-token", None), (TOKEN, "http://evil.example")]
)
async def test_nobody_reads_the_programs_without_the_token_or_from_another_site(token, origin):
    async with served("127.0.0.1:1") as url:
        for query in ("", "?program=0"):
            with pytest.RaisesGroup(HandshakeError, flatten_subgroups=True, allow_unwrapped=True):
                async with page(url, query, token, origin):
                    raise AssertionError("it was let in")


async def closed_reason(socket):
    """What the page shows: the close reason, or in its place the words before it, which may be longer."""
    told = {}
    with trio.fail_after(60), pytest.raises(ConnectionClosed) as closed:
        while True:
            told = json.loads(await socket.get_message())
    reason = closed.value.reason.reason
    assert len(reason.encode()) <= 120 and told.get("lost", reason).startswith(reason)
    return told.get("lost", reason)


async def test_a_program_that_does_not_run_is_said_to_the_page():
    async with served("cart=127.0.0.1:1") as url, page(url, "?program=0") as socket:
        assert "127.0.0.1:1: Connection refused; does the program run" in await closed_reason(socket)


async def test_the_page_hears_the_remedy_at_the_end_of_a_long_reason():
    address = f"unix:/{'a' * 60}.sock"
    async with served(address) as url, page(url, "?program=0") as socket:
        remedy = f'No such file or directory; does the program run, with open_channel(..., admin="{address}")?'
        assert await closed_reason(socket) == f"{address}: {remedy}"


async def test_a_program_that_wants_another_token_is_said_to_the_page():
    its = program("the-token-of-the-program")
    async with its as address, served(address) as url, page(url, "?program=0") as socket:
        assert (
            await closed_reason(socket)
            == f"{address}: the program wants its token; give that by --token or TRXDS_ADMIN_TOKEN"
        )


async def test_a_program_that_wants_a_certificate_is_read_with_the_one_of_the_options(tmp_path):
    files = Files(tmp_path, "127.0.0.1")
    its = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.path("roots"))
    its.load_cert_chain(*files.paths("server-cert", "server-key"))
    its.verify_mode = ssl.CERT_REQUIRED
    ours = tls_credentials(*files.paths("roots", "client-cert", "client-key"), "")
    stranger = tls_credentials(files.path("roots"), None, None, "")
    async with trxds.admin.serve(address=Admin("127.0.0.1:0", tls=its)) as address:
        async with served(address, tls=ours) as url, page(url, "?program=0") as socket:
            assert "hello" in json.loads(await socket.get_message())
        async with served(address, tls=stranger) as url, page(url, "?program=0") as socket:
            its_end = "no state stream there; is it the address of admin=, and does it want a certificate from us?"
            assert await closed_reason(socket) == f"{address}: {its_end}"


async def test_an_address_without_an_admin_surface_is_said_to_the_page():
    async with trxds.testing.serve({}) as server, served(server.address) as url, page(url, "?program=0") as socket:
        its_end = "no state stream there; is it the address of admin=, and is --tls missing?"
        assert await closed_reason(socket) == f"{server.address}: {its_end}"


async def test_a_program_that_ends_closes_its_connection_and_no_other():
    async with program() as stays, serve_programs_of_one_more(stays) as (url, end), page(url, "?program=0") as one:
        async with page(url, "?program=1") as other:
            await heard(other)
            await end()
            assert await closed_reason(other) == "the program has ended"
        assert "hello" in await heard(one) and "snapshot" in await heard(one)


@asynccontextmanager
async def serve_programs_of_one_more(stays):
    """The page of a program and of one that `end` ends."""
    over, ended, address = trio.Event(), trio.Event(), []

    async def run(task_status):
        async with program() as its:
            address.append(its)
            task_status.started()
            await over.wait()
        ended.set()

    async def end():
        over.set()
        await ended.wait()

    async with trio.open_nursery() as nursery:
        await nursery.start(run)
        async with served(stays, *address) as url:
            yield url, end
        over.set()


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        (["nonsense"], "'nonsense' is not unix:/path or host:port"),
        (["cart=nonsense"], "'nonsense' is not unix:/path or host:port"),
        (["a: b=127.0.0.1:1"], "'a: b' is no name for a program"),
        (["=127.0.0.1:1"], "'' is no name for a program"),
        (["a=127.0.0.1:1", "a=127.0.0.1:2"], "name them, as in a=127.0.0.1:1 b=127.0.0.1:2"),
    ],
)
def test_programs_that_cannot_be_told_apart_or_found_are_usage_errors(texts, error):
    done = CliRunner().invoke(main, ["live", *texts])
    assert done.exit_code == 2 and error in done.output


def test_a_program_has_its_address_for_a_name_unless_it_is_given_one():
    named = named_programs(["unix:/run/a=b.sock", "127.0.0.1:9901", "cart=127.0.0.1:9902"], Access())
    assert [(each.name, each.program.address) for each in named] == [
        ("unix:/run/a=b.sock", "unix:/run/a=b.sock"),
        ("127.0.0.1:9901", "127.0.0.1:9901"),
        ("cart", "127.0.0.1:9902"),
    ]


def test_a_port_that_is_taken_is_an_error_with_a_remedy():
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(main, ["live", "127.0.0.1:1", "--port", str(port)])
    assert done.exit_code == 1
    assert f"127.0.0.1:{port}: " in done.output and "take another port with --port" in done.output
