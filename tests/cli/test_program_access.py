"""How commands reach a program that has TLS, and what they say if it cannot be reached, or cannot be understood."""

import errno
import json
import os
import socket
import ssl
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
import trustme
from click.testing import CliRunner
from support.certificates import Files
from support.mesh import METHOD, Mesh, ask
from support.running_program import Shell

import trxds
import trxds.admin
from trxds.cli.main import main
from trxds.cli.running.access import Access
from trxds.cli.running.program import Program, UnreachableError, is_address
from trxds.cli.tls_options import tls_credentials
from trxds.transport.connect import TcpNetwork

pytestmark = pytest.mark.slow


class Certificates:
    """PEM files of an authority, a program for 127.0.0.1 and an operator; and those of a stranger."""

    def __init__(self, folder):
        self.folder = folder
        ca, other = trustme.CA(), trustme.CA()
        ca.cert_pem.write_to_path(self.path("roots"))
        self.program = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert("127.0.0.1").configure_cert(self.program)
        ca.configure_trust(self.program)
        self.program.verify_mode = ssl.CERT_REQUIRED
        for name, leaf in (("operator", ca.issue_cert("ops.example")), ("stranger", other.issue_cert("ops.example"))):
            leaf.cert_chain_pems[0].write_to_path(self.path(name))
            leaf.private_key_pem.write_to_path(self.path(f"{name}-key"))

    def path(self, name):
        return str(self.folder / f"{name}.pem")

    def options(self, name):
        return (
            "--roots",
            self.path("roots"),
            "--certificate",
            self.path(name),
            "--private-key",
            self.path(f"{name}-key"),
        )


@asynccontextmanager
async def program_with_tls(tmp_path):
    """A program that wants certificates of its clients, a shell beside it, and the certificates."""
    its = Certificates(tmp_path)
    async with (
        Mesh.run(1) as mesh,
        mesh.channel() as channel,
        trxds.admin.serve(channel, address=trxds.admin.Admin("127.0.0.1:0", tls=its.program)) as address,
    ):
        await ask(channel)
        yield Shell(address), its


async def test_every_command_reaches_a_program_that_wants_a_certificate(tmp_path):
    async with program_with_tls(tmp_path) as (shell, its):
        options = its.options("operator")
        for command in ("ruok", "lb", "sessions", "xds"):
            assert await shell.lines(command, *options)
        saved = tmp_path / "mesh.yaml"
        [line] = await shell.lines("xds", *options, "--save", str(saved))
        assert line == f"{saved}: 4 resources; 0 fields left out"
        words = ["explain", "xds:///shop", METHOD, "--admin", shell.address, *options]
        done = await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, words))
        assert (done.exit_code, "so the RPC goes to" in done.stdout) == (0, True)


@pytest.mark.parametrize("command", ["ruok", "tap"])
async def test_a_program_that_refuses_our_certificate_exits_3_and_says_so(tmp_path, command):
    async with program_with_tls(tmp_path) as (shell, its):
        done = await shell.run(command, *its.options("stranger"))
        assert done.exit_code == 3
        assert done.stderr.startswith(f"{shell.address}: ")
        assert done.stderr.endswith("; does it accept our certificate?\n")
        assert "event type" not in done.stderr, "the words of a library"
        done = await shell.run(command, "--roots", its.path("roots"))
        assert done.stderr.endswith("; does it want a certificate from us?\n")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "what listens there speaks no HTTP/1.1; is it the address of admin=, and is --tls missing?"),
        (["--tls"], "TLS as '127.0.0.1': certificate verify failed: "),
        (["--tls", "--server-name", "web"], "TLS as 'web': certificate verify failed: "),
    ],
)
async def test_options_that_do_not_fit_a_program_with_tls_are_named(tmp_path, options, reason):
    async with program_with_tls(tmp_path) as (shell, _):
        done = await shell.run("ruok", *options)
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.startswith(f"{shell.address}: {reason}")


@pytest.mark.parametrize(
    "words", [["ruok", "127.0.0.1:1"], ["live", "127.0.0.1:1"], ["explain", "x", "/a.B/C", "--admin", "127.0.0.1:1"]]
)
def test_a_certificate_without_its_key_is_a_usage_error(tmp_path, words):
    its = Certificates(tmp_path)
    done = CliRunner().invoke(main, [*words, "--certificate", its.path("operator")])
    assert (done.exit_code, "--certificate needs --private-key" in done.stderr) == (2, True)


@pytest.mark.parametrize("name", [".x", "é..x", "x" * 300, "."])
@pytest.mark.parametrize("words", [["ruok", "127.0.0.1:1"], ["call", "127.0.0.1:1", "a.B/C"]])
def test_a_server_name_that_no_peer_can_have_is_a_usage_error(words, name):
    done = CliRunner().invoke(main, [*words, "--server-name", name])
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"--server-name {name!r} is no name that a peer can have; give a DNS name" in done.stderr


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--tls"], "--tls is for a running program; name its address by --admin too"),
        (["--token", "x"], "--token is for a running program; name its address by --admin too"),
        (
            ["--admin", "127.0.0.1:1", "--settle", "2s"],
            "--settle is for a channel of this command's own; leave it or --admin out",
        ),
    ],
)
def test_an_option_of_the_other_way_to_explain_is_a_usage_error(options, error):
    done = CliRunner().invoke(main, ["explain", "xds:///shop", METHOD, *options])
    assert (done.exit_code, error in done.stderr) == (2, True)


def test_a_token_of_the_environment_is_for_the_commands_that_want_one():
    done = CliRunner().invoke(main, ["explain", "ipv4:127.0.0.1:1", METHOD], env={"TRXDS_ADMIN_TOKEN": "x" * 16})
    assert done.exit_code == 1, "no host is there"


async def test_a_wrong_token_is_told_from_a_missing_one(tmp_path):
    token = "0123456789abcdef"
    async with trxds.admin.serve(address=trxds.admin.Admin("127.0.0.1:0", token)) as address:
        for options, problem in (
            ((), "the program wants its token"),
            (("--token", "x" * 16), "the token is not the program's"),
        ):
            for command in (("ruok",), ("xds", "--save", str(tmp_path / "mesh.yaml"))):
                done = await Shell(address).run(*command, *options)
                assert done.exit_code == 3
                assert done.stderr == f"{address}: {problem}; give that by --token or TRXDS_ADMIN_TOKEN\n"


# -- no connection


@pytest.mark.parametrize("text", ["web-1:65536", "127.0.0.1:100000"])
def test_a_port_that_there_is_not_is_no_address(text):
    assert not is_address(text)


def test_the_url_of_the_page_is_no_address():
    """DNS would be blamed for it."""
    done = CliRunner().invoke(main, ["ruok", "http://127.0.0.1:9901"])
    assert done.exit_code == 2
    assert "'http://127.0.0.1:9901' is not unix:/path or host:port, as in 127.0.0.1:9901" in done.stderr


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        (
            "unix:/run/shop.sock",
            PermissionError(errno.EACCES, os.strerror(errno.EACCES)),
            "Permission denied; a program's socket is for its own user alone; run the command as that user",
        ),
        (
            "web-1:9901",
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            "Name or service not known; correct the name of the host",
        ),
        (
            "10.0.0.9:9901",
            ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)),
            "Connection refused; does the program listen at that address? "
            "One at 127.0.0.1 of its machine is reached by `ssh -L`",
        ),
    ],
)
def test_a_program_that_cannot_be_reached_says_what_to_do(monkeypatch, address, error, message):
    async def connect(self, address):
        raise error

    monkeypatch.setattr(TcpNetwork, "connect", connect)
    done = CliRunner().invoke(main, ["ruok", address])
    assert (done.exit_code, done.stderr) == (3, f"{address}: {message}\n")


# -- a peer in memory


@pytest.fixture
def peer(monkeypatch):
    """The other end of the connection to a program."""
    ours, theirs = trio.testing.memory_stream_pair()

    async def connect(self, address):
        return ours

    monkeypatch.setattr(TcpNetwork, "connect", connect)
    return theirs


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path, "shop.example")


def trusting(files, server_name=""):
    return Access(tls=tls_credentials(files.path("roots"), None, None, server_name))


async def accepted(peer, files):
    """The peer's end of TLS, after the handshake."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*files.paths("server-cert", "server-key"))
    stream = trio.SSLStream(peer, context, server_side=True)
    await stream.do_handshake()
    return stream


async def test_a_name_of_the_address_that_no_peer_can_have_is_no_connection(peer, files):
    with pytest.raises(
        UnreachableError, match=r"^\.x:9901: TLS as '\.x': no peer can have that name; give its name by"
    ):
        await Program(".x:9901", trusting(files)).connect()
    with trio.fail_after(60):
        assert await peer.receive_some() == b"", "the connection is closed"


@pytest.mark.parametrize(("address", "server_name"), [("127.0.0.1:9901", "shop.example."), ("shop.example.:9901", "")])
async def test_the_dot_at_the_end_of_a_complete_name_has_not_to_be_proved(peer, files, nursery, address, server_name):
    nursery.start_soon(accepted, peer, files)
    async with await Program(address, trusting(files, server_name)).connect() as stream:
        assert isinstance(stream, trio.SSLStream)


async def test_a_handshake_that_takes_long_leaves_no_connection(peer, files, autojump_clock):
    with pytest.raises(UnreachableError, match="no connection within 5 s"):
        await Program("shop.example:9901", trusting(files)).connect()
    with trio.fail_after(60):
        while await peer.receive_some():
            pass  # the hello, then the end


async def test_files_that_are_gone_are_not_taken_for_a_program_that_does_not_run(peer, files):
    its = Program("shop.example:9901", trusting(files))
    (files.folder / "roots.pem").unlink()
    with pytest.raises(
        UnreachableError, match=r"^shop\.example:9901: cannot read the roots .*: No such file or directory$"
    ):
        await its.connect()


async def test_an_answer_over_tls_that_is_no_http_is_told_from_none(peer, files, nursery):
    async def serve():
        stream = await accepted(peer, files)
        await stream.receive_some()
        await stream.send_all(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))  # SETTINGS, as a server of gRPC sends them

    nursery.start_soon(serve)
    with pytest.raises(UnreachableError) as unreachable:
        async with Program("shop.example:9901", trusting(files)).ask():
            pass
    its_end = "what listens there speaks no HTTP/1.1; is it the address of admin=?"
    assert str(unreachable.value) == f"shop.example:9901: {its_end}"


async def test_a_peer_that_closes_before_the_request_is_told_in_words(peer):
    await peer.aclose()
    with pytest.raises(UnreachableError, match=r"^shop\.example:9901: what listens there speaks no HTTP/1\.1; "):
        async with Program("shop.example:9901").ask():
            pass


# -- another version


@asynccontextmanager
async def another_version(message):
    """A program that answers every request with this message, and goes on; its address."""
    body = json.dumps(message).encode() + b"\n"

    async def serve(stream):
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(body), body))
        await stream.receive_some()  # until the client leaves

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield f"127.0.0.1:{listener.socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "words",
    [
        ["ruok"],
        ["lb"],
        ["xds"],
        ["sessions"],
        ["sessions", "--by-host"],
        ["ruok", "--watch"],
        ["lb", "--json"],
        ["tap"],
    ],
)
@pytest.mark.parametrize(
    "message",
    [
        {"snapshot": {}, "events": [{"kind": "pick"}]},
        {"snapshot": {name: {"a": {}} for name in ("channels", "resources", "endpoints", "sessions")}, "events": [{}]},
        {"later": 5, "events": 5},
        {"snapshot": 5, "events": [5]},
    ],
)
async def test_a_program_of_another_version_has_no_answer_and_is_no_traceback(words, message):
    async with another_version(message) as address:
        done = await Shell(address).run(*words)
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.startswith(f"{address}: the answer cannot be shown (")
    assert done.stderr.endswith(
        "); does the program have another version of trxds? Use the `trxds` command of its environment\n"
    )


async def test_an_explanation_of_another_version_has_no_answer():
    async with another_version({"text": "it goes somewhere"}) as address:
        words = ["explain", "xds:///shop", METHOD, "--admin", address]
        done = await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, words))
    assert (done.exit_code, done.stdout) == (3, "")
    assert "another version of trxds" in done.stderr


def test_a_program_does_not_show_its_token():
    assert "secret" not in repr(Program("127.0.0.1:1", Access("secret-secret-secret")))
