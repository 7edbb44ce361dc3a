"""The commands beside a running program, at a real unix socket: a drain, a NACK, a missing cluster, a moved session."""

import json
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from subprocess import PIPE

import pytest
import trio
from click.testing import CliRunner
from support.mesh import METHOD, Mesh, ask
from trio.testing import wait_all_tasks_blocked

import trxds
import trxds.admin
from trxds import RpcError
from trxds.cli.main import main
from trxds.cli.running.pages import REASONS
from trxds.cli.running.program import Program
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow

FAULT = "envoy.extensions.filters.http.fault.v3.HTTPFault"


class Shell:
    """Somebody at a terminal beside the program."""

    def __init__(self, address):
        self.address = address

    async def run(self, command, *options, address=None):
        """The command's result; it runs in a thread, as another program would beside ours."""
        line = [command, address or self.address, *options]
        return await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, line), abandon_on_cancel=True)

    async def lines(self, command, *options, exit_code=0):
        done = await self.run(command, *options)
        assert (done.exit_code, done.stderr) == (exit_code, ""), done.output
        return done.stdout.splitlines()

    async def rows(self, command, *options, exit_code=0):
        return [json.loads(line) for line in await self.lines(command, "--json", *options, exit_code=exit_code)]


@asynccontextmanager
async def program(tmp_path, hosts=3):
    """A mesh, a channel of it that has called, and a shell."""
    address = f"unix:{tmp_path}/x.sock"
    async with Mesh.run(hosts) as mesh, mesh.channel(admin=address) as channel:
        await ask(channel)
        await wait_all_tasks_blocked()
        yield mesh, channel, Shell(address)


async def until(condition):
    """Until the program is so far: what it does, it does in memory and at once."""
    with trio.fail_after(10):
        while not condition():
            await trio.lowlevel.checkpoint()


def cells(line):
    return [cell for cell in line.split("  ") if cell]


# -- each on a real problem


async def test_the_lb_command_shows_a_draining_host(tmp_path):
    async with program(tmp_path) as (mesh, _, shell):
        gone = mesh.hosts[0]
        mesh.endpoints("cart", xds.locality(*mesh.hosts, zone="b", health={gone: "DRAINING"}))
        await wait_all_tasks_blocked()
        lines = await shell.lines("lb")
        [row] = [cells(line) for line in lines if line.startswith(gone)]
        assert [cell.strip() for cell in row] == [gone, "cart", "0", "b", "DRAINING", "-", "1", "0"]
        assert any(line.rstrip().endswith("2 of 2 endpoints READY") for line in lines)


async def test_the_xds_command_shows_a_nack(tmp_path):
    async with program(tmp_path) as (mesh, channel, shell):
        mesh.plane.put(xds.cluster("cart") | {"lb_policy": "MAGLEV"})
        await wait_all_tasks_blocked()
        lines = await shell.lines("xds", exit_code=1)
        [row] = [line for line in lines if line.startswith("CDS")]
        assert row.split()[:4] == ["CDS", "cart", "nacked", "1"]
        assert "LB policy is not supported" in row
        [line, warning] = await shell.lines("ruok")  # what was there before is still good
        assert line == "shop (xds:///shop): ok, READY"
        assert warning.startswith('  warning: CDS resource "cart" is nacked: ')
        assert warning.endswith("; version 1 stays in use")
        assert await ask(channel)


async def test_the_ruok_command_shows_an_override_of_another_filters_type(tmp_path):
    async with program(tmp_path) as (mesh, channel, shell):
        fault = {
            "@type": f"type.googleapis.com/{FAULT}",
            "abort": {"grpc_status": 10, "percentage": {"numerator": 100}},
        }
        mesh.route(xds.route("cart") | {"typed_per_filter_config": {"stateful_session": fault}})
        await wait_all_tasks_blocked()
        assert await ask(channel), "it is left out"
        [line, warning] = await shell.lines("ruok")
        assert line == "shop (xds:///shop): ok, READY"
        assert warning.startswith('  warning: RDS resource "routes" (server ')
        assert 'route 0 of virtual host "routes": typed_per_filter_config["stateful_session"] has the type ' in warning
        assert FAULT in warning and "envoy.extensions.filters.http.stateful_session.v3.StatefulSession;" in warning
        [row] = await shell.rows("ruok")
        assert (row["ok"], [f"  warning: {each}" for each in row["warnings"]]) == (True, [warning])


async def test_the_ruok_command_shows_a_cluster_that_asks_for_tls_in_vain(tmp_path):
    async with program(tmp_path) as (mesh, _, shell):
        tls = {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": {"validation_context": {"system_root_certs": {}}},
        }
        mesh.plane.put(xds.cluster("cart") | {"transport_socket": {"name": "tls", "typed_config": tls}})
        await wait_all_tasks_blocked()
        [line, warning] = await shell.lines("ruok")
        assert line == "shop (xds:///shop): ok, READY"
        assert warning.startswith('  warning: CDS resource "cart" (server ') and "it asks for TLS" in warning


async def test_the_ruok_command_shows_a_missing_cluster(tmp_path):
    async with program(tmp_path) as (mesh, channel, shell):
        mesh.plane.remove("CDS", "cart")
        await wait_all_tasks_blocked()
        with pytest.raises(RpcError):
            await ask(channel)
        [line, problem, warning] = await shell.lines("ruok", exit_code=1)
        assert line == "shop (xds:///shop): NOT OK, TRANSIENT_FAILURE"
        assert problem.startswith("  cluster cart: cluster cart without a usable resource; ")
        assert 'CDS resource "cart"' in problem
        assert warning.startswith('  warning: CDS resource "cart" is does_not_exist')
        assert (await shell.lines("lb", exit_code=1))[0].startswith(
            "shop (xds:///shop) TRANSIENT_FAILURE: 2 calls, 1 failed"
        )


async def test_the_sessions_command_shows_a_session_that_moved(tmp_path):
    async with program(tmp_path) as (mesh, channel, shell), channel.session() as session:
        old = await ask(session)
        mesh.endpoints("cart", [host for host in mesh.hosts if host != old])
        await wait_all_tasks_blocked()
        new = await ask(session)
        [_, row] = await shell.lines("sessions")
        told = [cell.strip() for cell in cells(row)]
        assert (told[:3], told[4:6]) == (["shop/1", new, "cart"], ["2", "1"])
        words = f'{REASONS["unknown_host"]}, EDS resource "cart" version 2'
        assert told[6].endswith(f"ago from {old}: unknown_host ({words})")
        [data] = await shell.rows("sessions")
        assert (data["key"], data["last_move"]["reason"]) == ("shop/1", "unknown_host")


async def test_the_sessions_of_each_host_have_their_share(tmp_path):
    async with program(tmp_path, hosts=3) as (_, channel, shell), AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(channel.session()) for _ in range(4)]
        for session in opened:
            await ask(session)
        host = opened[0].host
        count = sum(session.host == host for session in opened)
        head, *rows = [cells(line) for line in await shell.lines("sessions", "--by-host")]
        assert " ".join(cell.strip() for cell in head) == "HOST CHANNEL CLUSTER HEALTH STATE SESSIONS SHARE FAIR"
        row = next(row for row in rows if row[0].strip() == host)
        assert [cell.strip() for cell in row[1:]] == [
            "shop",
            "cart",
            "HEALTHY",
            "READY",
            str(count),
            f"{count / 4:.0%}",
            "33%",
        ]
        assert sum(int(row[5]) for row in rows) == 4


async def test_the_ruok_command_shows_hosts_that_cannot_be_reached(tmp_path):
    async with program(tmp_path, hosts=1) as (mesh, channel, shell):
        mesh.servers[mesh.hosts[0]].stop()
        mesh.network.refuse(mesh.hosts[0])
        await until(lambda: channel.state is trxds.Connectivity.TRANSIENT_FAILURE)
        [_, problem, warning] = await shell.lines("ruok", exit_code=1)
        assert problem.startswith("  cluster cart: ")
        assert f"{mesh.hosts[0]}: cannot connect" in problem
        assert warning.startswith(f"  warning: no connection to host {mesh.hosts[0]}: ")


# -- ruok


async def test_the_ruok_command_fails_unless_all_channels_are_ok(tmp_path):
    address = f"unix:{tmp_path}/x.sock"
    async with Mesh.run(1) as mesh, mesh.channel() as one, mesh.channel("xds:///nothing") as other:
        await ask(one)
        async with trxds.admin.serve(one, other, address=address):
            [good, bad] = await Shell(address).rows("ruok", exit_code=1)
    assert (good["channel"], good["ok"], good["problems"]) == ("shop", True, [])
    assert (bad["channel"], bad["ok"], bad["state"]) == ("nothing", False, "CONNECTING")
    assert "trxds xds" in bad["problems"][0]


# -- tap


async def tapped(shell, nursery, *options):
    """A tap that listens already; what it says is in the box when it is over."""
    box = []

    async def listen():
        box.append(await shell.run("tap", *options))

    nursery.start_soon(listen)
    return box


@asynccontextmanager
async def tapping(tmp_path, *options):
    """A program with a tap of these options on it; the result is in `box` when the block is over."""
    async with program(tmp_path) as (mesh, channel, shell):
        async with trio.open_nursery() as nursery:
            box = await tapped(shell, nursery, *options)
            await until(lambda: channel._state.observers.active)
            yield mesh, channel, box
        assert box[0].exit_code == 0


async def test_the_tap_command_shows_each_pick_as_it_happens(tmp_path):
    async with tapping(tmp_path, "--count", "2") as (_, channel, box), channel.session() as session:
        hosts = [await ask(session), await ask(channel)]
    rows = [line.split("  ") for line in box[0].output.splitlines()]
    assert [row[2:] for row in rows] == [
        [METHOD, "cart", hosts[0], "session shop/1", "balanced: no_cookie"],
        [METHOD, "cart", hosts[1], "no session", "balanced"],
    ]


async def test_the_tap_command_shows_only_the_selected_picks(tmp_path):
    options = ("--session", "shop/*", "--cluster", "cart", "--count", "1", "--json")
    async with tapping(tmp_path, *options) as (_, channel, box), channel.session() as session:
        await ask(channel)
        await ask(session)
    [event] = map(json.loads, box[0].output.splitlines())
    assert (event["kind"], event["session"]) == ("pick", "shop/1")


async def test_the_tap_command_shows_only_the_ends_with_the_selected_status(tmp_path):
    async with tapping(tmp_path, "--status", "unimpl*", "--count", "1") as (mesh, channel, box):
        await ask(channel)
        for server in mesh.servers.values():
            server.fallback = None
        with pytest.raises(RpcError):
            await ask(channel)
    assert "UNIMPLEMENTED after" in box[0].output


async def test_a_failure_is_shown_without_being_asked_for(tmp_path):
    async with tapping(tmp_path, "--count", "2") as (mesh, channel, box):
        for server in mesh.servers.values():
            server.fallback = None
        with pytest.raises(RpcError):
            await ask(channel)
    [pick, end] = box[0].output.splitlines()
    assert pick.split("  ")[1] == end.split("  ")[1] == "#1"
    assert "UNIMPLEMENTED" in end


async def test_metadata_is_hidden_unless_the_program_allows_it(tmp_path):
    async with tapping(tmp_path, "--count", "1", "--metadata") as (_, channel, box):
        await ask(channel, metadata=[("tenant", "secret")])
    assert box[0].output.rstrip().endswith("balanced  tenant=…")


# -- --watch


async def test_a_page_is_shown_again_when_something_has_changed_and_ends_with_the_program(tmp_path):
    address = f"unix:{tmp_path}/x.sock"
    command = [sys.executable, "-m", "trxds", "sessions", "--watch", "--json", address]
    async with Mesh.run(1) as mesh:
        async with mesh.channel() as channel, trxds.admin.serve(channel, address=address), channel.session() as session:
            await ask(session)
            beside = await trio.lowlevel.open_process(command, stdout=PIPE, stderr=PIPE)
            said = Lines(beside.stdout)
            assert json.loads(await said.receive())["calls"] == 1
            await ask(session)
            assert json.loads(await said.receive())["calls"] == 2
        assert await beside.wait() == 3
        assert (
            await beside.stderr.receive_some() == f"{address}: the program has ended, or closed its channel\n".encode()
        )


@pytest.mark.parametrize("command", [["sessions", "--watch"], ["lb", "--watch", "--json"]])
async def test_a_closed_pipe_ends_a_command_without_an_error(tmp_path, command):
    async with program(tmp_path) as (_, channel, shell), channel.session() as session:
        line = [sys.executable, "-m", "trxds", *command, shell.address]
        beside = await trio.lowlevel.open_process(line, stdout=PIPE, stderr=PIPE)
        with trio.fail_after(20):
            await beside.stdout.receive_some(1)
            await beside.stdout.aclose()  # as `| head -1` does
            await ask(session)
            assert (await beside.wait(), await beside.stderr.receive_some()) == (0, b"")


class Lines:
    """Line by line."""

    def __init__(self, stream):
        self._stream = stream
        self._read = b""

    async def receive(self):
        while b"\n" not in self._read:
            self._read += await self._stream.receive_some()
        line, _, self._read = self._read.partition(b"\n")
        return line


# -- nobody there


@pytest.mark.parametrize("command", ["lb", "ruok", "sessions", "tap", "xds"])
def test_a_program_that_is_not_there_exits_3_and_says_what_to_look_at(tmp_path, command):
    address = f"unix:{tmp_path}/x.sock"
    done = CliRunner().invoke(main, [command, address])
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr == (
        f'{address}: No such file or directory; does the program run, with open_channel(..., admin="{address}")?\n'
    )


@pytest.mark.parametrize("command", ["ruok 127.0.0.1:9", "explain shop /a.B/C --admin 127.0.0.1:9"])
def test_ctrl_c_before_an_answer_is_no_good_answer(monkeypatch, command):
    monkeypatch.setattr(Program, "connect", interrupted)
    assert CliRunner().invoke(main, command.split()).exit_code == 3


@pytest.mark.parametrize("command", ["ruok 127.0.0.1:9 --watch", "tap 127.0.0.1:9"])
def test_ctrl_c_is_the_end_of_a_command_that_has_no_other(monkeypatch, command):
    monkeypatch.setattr(Program, "connect", interrupted)
    assert CliRunner().invoke(main, command.split()).exit_code == 0


async def interrupted(program):
    raise KeyboardInterrupt


async def test_an_address_without_an_admin_surface_exits_3():
    async with trxds.testing.serve() as server:
        done = await Shell(server.address).run("ruok")
    assert (done.exit_code, "speaks no HTTP/1.1" in done.stderr) == (3, True)


@pytest.mark.parametrize("command", [["ruok"], ["explain", "xds:///shop", METHOD, "--admin"]])
@pytest.mark.parametrize("address", ["shop", "127.0.0.1", ":9901", "unix:", "web-1:http"])
def test_an_address_that_is_none_is_a_mistake_in_the_command_line(command, address):
    done = CliRunner().invoke(main, [*command, address])
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{address!r} is not unix:/path or host:port, as in 127.0.0.1:9901" in done.stderr


@pytest.mark.parametrize(
    "words", [["ruok", "unix:/x"], ["xds", "unix:/x", "--save", "x"], ["live", "unix:/x"], ["explain", "x", "/a/b"]]
)
def test_a_token_with_a_line_end_is_a_usage_error_that_does_not_show_it(words):
    done = CliRunner().invoke(main, words, env={"TRXDS_ADMIN_TOKEN": "0123456789abcdef\n"})
    assert done.exit_code == 2
    assert "is there a line end behind it?" in done.stderr
    assert "0123456789abcdef" not in done.output


async def test_a_token_that_is_missing_exits_3_and_one_that_is_right_does_not():
    token = "0123456789abcdef"
    async with (
        Mesh.run(1) as mesh,
        mesh.channel() as channel,
        trxds.admin.serve(channel, address=trxds.admin.Admin("127.0.0.1:0", token)) as address,
    ):
        await ask(channel)
        done = await Shell(address).run("ruok")
        assert (done.exit_code, "TRXDS_ADMIN_TOKEN" in done.stderr) == (3, True)
        assert (await Shell(address).run("ruok", "--token", token)).exit_code == 0


def test_a_command_without_an_address_is_a_mistake():
    assert CliRunner().invoke(main, ["ruok"]).exit_code == 2


async def test_output_has_no_colour_without_a_terminal(tmp_path):
    async with program(tmp_path) as (_, _, shell):
        for command in ("lb", "xds", "ruok"):
            assert "\x1b" not in (await shell.run(command)).output


async def test_output_has_no_colour_with_no_color(tmp_path, monkeypatch):
    async with program(tmp_path) as (_, _, shell):
        line = ["ruok", shell.address]
        runs = {}
        for wish in ("", "1"):
            monkeypatch.setenv("NO_COLOR", wish)
            done = await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, line, color=True))
            runs[wish] = "\x1b" in done.output
    assert runs == {"": True, "1": False}


async def test_the_address_may_come_from_the_environment(tmp_path, monkeypatch):
    async with program(tmp_path) as (_, _, shell):
        monkeypatch.setenv("TRXDS_ADMIN", shell.address)
        done = await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, ["ruok"]))
    assert done.exit_code == 0


@pytest.mark.parametrize("body", [b"<html>hello</html>\n", b"[]\n", b"[" * 2000 + b"\n"])
async def test_a_web_server_that_answers_everything_is_not_taken_for_a_program(body):
    async def serve(stream):
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        address = f"127.0.0.1:{listener.socket.getsockname()[1]}"
        done = await Shell(address).run("lb")
        nursery.cancel_scope.cancel()
    text = "what listens there answers with something else than the state stream; is it the address of admin=?"
    assert (done.exit_code, done.stderr) == (3, f"{address}: {text}\n")


async def test_the_page_with_which_another_server_refuses_is_not_shown():
    async def serve(stream):
        await stream.receive_some()
        page = b"<!DOCTYPE html>\n<p>Not here</p>\n"
        await stream.send_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: %d\r\n\r\n%s" % (len(page), page))

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        address = f"127.0.0.1:{listener.socket.getsockname()[1]}"
        done = await Shell(address).run("ruok")
        nursery.cancel_scope.cancel()
    assert done.stderr == f"{address}: refused (HTTP 404); is it the address of admin=?\n"
