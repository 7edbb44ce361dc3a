"""The state stream over HTTP, on real sockets of loopback: who is answered, with what, and what is left of it."""

import fcntl
import json
import socket
import stat
import struct
import termios
from contextlib import AsyncExitStack, asynccontextmanager

import h11
import pytest
import trio
from support.mesh import Mesh, ask

import trxds
import trxds.admin
from trxds.admin import Admin
from trxds.admin.server import MAX_CONNECTIONS

TOKEN = "0123456789abcdef"


class Asking:
    """One request, and what comes back."""

    def __init__(self, stream):
        self.stream = stream
        self.http = h11.Connection(h11.CLIENT)
        self.status = 0
        self._rest = b""

    async def _event(self):
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.stream.receive_some(4096))
        return event

    async def begin(self, target, method="GET", **headers):
        named = {"host": "localhost", **headers}
        await self.stream.send_all(
            self.http.send(h11.Request(method=method, target=target, headers=list(named.items())))
        )
        await self.stream.send_all(self.http.send(h11.EndOfMessage()))
        self.status = (await self._event()).status_code

    async def line(self):
        """One line of the answer; None at its end."""
        while b"\n" not in self._rest:
            event = await self._event()
            if not isinstance(event, h11.Data):
                return None
            self._rest += event.data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    async def message(self):
        return json.loads(await self.line())


@asynccontextmanager
async def asking(address, target="/state", **more):
    path = address.removeprefix("unix:")
    if path != address:
        stream = await trio.open_unix_socket(path)
    else:
        host, _, port = address.rpartition(":")
        stream = await trio.open_tcp_stream(host, int(port))
    async with stream:
        asked = Asking(stream)
        await asked.begin(target, **more)
        yield asked


@asynccontextmanager
async def serving(admin):
    """A channel in memory that has called, with its admin surface on a real socket."""
    async with Mesh.run(1) as mesh, mesh.channel(admin=admin) as channel:
        await ask(channel)
        yield channel


@pytest.fixture
def unix(tmp_path):
    return f"unix:{tmp_path}/x.sock"


async def test_the_state_stream_over_http_has_a_snapshot_and_then_changes(unix):
    async with serving(unix) as channel, asking(unix) as asked:
        first = await asked.message()
        assert (first["number"], first["snapshot"]["channels"]["shop"]["calls"]) == (1, 1)
        await ask(channel)
        second = await asked.message()
        assert second["number"] == 2
        assert ("channels", "shop") in [(change["section"], change["key"]) for change in second["changes"]]


async def test_the_state_stream_with_once_ends_after_the_snapshot(unix):
    async with serving(unix), asking(unix, "/state?once=1&sections=channels,sessions") as asked:
        message = await asked.message()
        assert (set(message["snapshot"]), message["snapshot"]["sessions"]) == ({"channels", "sessions"}, {})
        assert await asked.line() is None


async def test_the_state_stream_is_served_on_a_loopback_port():
    async with (
        Mesh.run(1) as mesh,
        mesh.channel() as channel,
        trxds.admin.serve(channel, address="127.0.0.1:0") as address,
        asking(address, "/state?once=1") as asked,
    ):
        assert (await asked.message())["snapshot"]["channels"]


async def test_several_channels_share_one_admin_address(unix):
    async with (
        Mesh.run(1) as mesh,
        mesh.channel() as one,
        mesh.channel() as other,
        trxds.admin.serve(one, other, address=unix),
        asking(unix, "/state?once=1") as asked,
    ):
        assert list((await asked.message())["snapshot"]["channels"]) == ["shop", "shop#2"]


async def test_a_large_snapshot_is_one_line_whatever_the_pieces(unix):
    async with serving(unix) as channel, AsyncExitStack() as stack:
        for _ in range(450):
            await stack.enter_async_context(channel.session())
        async with asking(unix, "/state?once=1&sections=sessions,channels") as asked:
            told = (await asked.message())["snapshot"]
    assert len(told["sessions"]) == 450
    assert told["channels"]


# -- who is answered


@pytest.mark.parametrize(
    ("target", "more", "status", "says"),
    [
        ("/state", {"method": "POST"}, 405, "POST is not allowed here; use GET"),
        ("/metrics", {}, 404, "there is no /metrics; there are /, /state and /explain"),
        ("/state?section=nodes", {}, 400, "there is no parameter 'section'; there are sections, events"),
        ("/state?sections=picks", {}, 400, "there is no section 'picks'"),
        ("/state?events=nothing", {}, 400, "there is no event 'nothing'"),
        ("/state", {"host": "evil.example"}, 421, "nothing for the host 'evil.example'"),
        ("/state", {"origin": "http://localhost"}, 403, "browser pages may not use it"),
        ("/explain?method=/s/M", {"origin": "http://localhost"}, 403, "browser pages may not use it"),
    ],
)
async def test_an_invalid_http_request_gets_its_error(target, more, status, says):
    async with (
        Mesh.run(1) as mesh,
        mesh.channel() as channel,
        trxds.admin.serve(channel, address="127.0.0.1:0") as address,
        asking(address, target, **more) as asked,
    ):
        assert (asked.status, says in await asked.line()) == (status, True)


@pytest.mark.parametrize("target", ["/state?once=1", "/explain?method=/s/M"])
async def test_a_token_has_to_be_shown(target):
    async with (
        Mesh.run(1) as mesh,
        mesh.channel() as channel,
        trxds.admin.serve(channel, address=Admin("127.0.0.1:0", token=TOKEN)) as address,
    ):
        async with asking(address, target) as asked:
            assert (asked.status, "authorization: Bearer TOKEN" in await asked.line()) == (401, True)
        async with asking(address, target, authorization=f"Bearer {TOKEN}") as asked:
            assert asked.status == 200


async def test_a_connection_without_http_gets_an_error_and_the_next_one_is_served(unix):
    async with serving(unix):
        async with await trio.open_unix_socket(unix.removeprefix("unix:")) as stream:
            await stream.send_all(b"\x16\x03\x01 hello?\r\n\r\n")
            assert b"400 " in await stream.receive_some(1000)
        async with asking(unix, "/state?once=1") as asked:
            assert asked.status == 200


async def test_a_viewer_above_the_limit_is_rejected(unix):
    async with serving(unix), trio.open_nursery() as nursery:

        async def watch(task_status):
            async with asking(unix, "/state?sections=channels") as asked:
                await asked.line()
                task_status.started()
                await trio.sleep_forever()

        for _ in range(MAX_CONNECTIONS):
            await nursery.start(watch)
        async with asking(unix) as asked:
            assert (asked.status, "64 connections are open already" in await asked.line()) == (503, True)
        nursery.cancel_scope.cancel()


# -- the socket's file


async def test_the_admin_socket_file_is_for_the_same_user_only_and_is_removed_with_the_channel(unix):
    path = trio.Path(unix.removeprefix("unix:"))
    async with serving(unix):
        assert stat.S_IMODE((await path.stat()).st_mode) == 0o600
    assert not await path.exists()


async def test_the_admin_socket_file_of_a_program_that_died_is_replaced(unix):
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(unix.removeprefix("unix:"))
    dead.close()
    async with serving(unix), asking(unix, "/state?once=1") as asked:
        assert asked.status == 200


async def test_the_admin_socket_file_of_a_running_program_is_an_error_with_a_remedy(unix):
    async with serving(unix), Mesh.run(1) as mesh:
        with pytest.raises(OSError, match=r"listens there already.*trxds\.admin\.serve\(one, other"):
            async with mesh.channel(admin=unix):
                pass
        async with asking(unix, "/state?once=1") as asked:
            assert asked.status == 200


async def test_an_ordinary_file_in_the_place_of_the_admin_socket_is_called_so_and_stays(unix):
    path = trio.Path(unix.removeprefix("unix:"))
    await path.write_text("mine")
    async with Mesh.run(1) as mesh:
        with pytest.raises(OSError, match="cannot listen there: there is a file that is no socket; take another path"):
            async with mesh.channel(admin=unix):
                pass
    assert await path.read_text() == "mine"


async def test_a_folder_that_is_not_there_is_named():
    async with Mesh.run(1) as mesh:
        with pytest.raises(OSError, match="cannot listen there: No such file or directory"):
            async with mesh.channel(admin="unix:/no/such/folder/x.sock"):
                pass


async def test_an_address_that_others_can_reach_is_refused_before_anything_runs():
    with pytest.raises(ValueError, match="can be reached from other machines"):
        async with trxds.open_channel("ipv4:127.0.0.1:1", admin="0.0.0.0:9901"):
            pass


async def test_an_exception_in_the_block_of_the_admin_server_is_raised_unchanged(unix):
    async with Mesh.run(1) as mesh:
        with pytest.raises(KeyError) as caught:
            async with mesh.channel(admin=unix):
                raise KeyError("the user's own")
    assert caught.value.args == ("the user's own",)


# -- those who watch, and those who call


def watching():
    """Whether there is a task that looks at the channel for viewers."""

    def names(task):
        yield task.name
        for nursery in task.child_nurseries:
            for child in nursery.child_tasks:
                yield from names(child)

    return "admin/state" in names(trio.lowlevel.current_root_task())


async def test_a_viewer_that_disconnects_is_noticed_without_any_event(unix):
    async with serving(unix):
        assert not watching()
        async with asking(unix, "/state?sections=resources&events=") as asked:
            await asked.line()
            assert watching()
        with trio.fail_after(10):
            while watching():
                await trio.lowlevel.checkpoint()


async def test_rpcs_continue_while_a_viewer_never_reads(unix):
    async with serving(unix) as channel:
        stream = await trio.open_unix_socket(unix.removeprefix("unix:"))
        async with stream:
            await stream.send_all(b"GET /state HTTP/1.1\r\nHost: localhost\r\n\r\n")
            told = [(f"{number}-{'k' * 500}", "v") for number in range(8)]  # 4 KB in each pick
            with trio.fail_after(30):
                while unread(stream) < 100_000:  # what is written next to it does not fit any more
                    await ask(channel, metadata=told)
                full = unread(stream)
                for _ in range(300):
                    await ask(channel, metadata=told)
            assert unread(stream) < full + 300 * 4_000  # so somebody waits, and it is not the calls


def unread(stream):
    """Bytes that the system keeps for who does not read."""
    return struct.unpack("i", fcntl.ioctl(stream.socket.fileno(), termios.FIONREAD, b"\0" * 4))[0]
