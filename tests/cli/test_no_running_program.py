"""The commands beside a running program, where there is none, or where its answer cannot be shown."""

from functools import partial

import pytest
import trio
from click.testing import CliRunner
from support.mesh import METHOD, Mesh, ask
from support.running_program import Shell, program

import trxds
import trxds.admin
from trxds.cli import main as commands
from trxds.cli.call import command as call_command
from trxds.cli.main import main
from trxds.cli.running.program import Program

pytestmark = pytest.mark.slow


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


async def interrupted(*arguments, **options):
    raise KeyboardInterrupt


def test_ctrl_c_in_a_call_is_not_its_success(monkeypatch):
    monkeypatch.setattr(call_command, "run_plan", interrupted)
    assert CliRunner().invoke(main, ["call", "127.0.0.1:9", "shop.Cart/Add"]).exit_code == 3


@pytest.mark.parametrize(("options", "code"), [([], 3), (["--live"], 0)])
def test_ctrl_c_in_the_demo_is_no_verdict_but_the_end_of_one_that_has_no_other(monkeypatch, options, code):
    for name in ("run_demo", "run_live"):
        monkeypatch.setattr(commands, name, interrupted)
    done = CliRunner().invoke(main, ["demo", *options])
    assert (done.exit_code, done.stdout) == (code, "stopped\n")


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
