"""The page of `trxds.admin.serve` on loopback: which browsers may open it, what it tells, and that nothing is left."""

import json
import secrets
from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import METHOD, Mesh
from support.tasks import task_names
from trio_websocket import ConnectionClosed, ConnectionRejected, wrap_client_stream

import trxds.admin
from trxds.admin import Admin, page_url


@asynccontextmanager
async def viewer(address, token=""):
    """A page's WebSocket; its messages, each of them shown at once."""
    host, _, port = address.rpartition(":")
    offers = ["trxds.admin", *([f"token.{token}"] if token else [])]
    origin = [(b"origin", f"http://{host}:{port}".encode())]
    # Not open_websocket, which leaves its socket open when the other side has gone without a word.
    async with await trio.open_tcp_stream(host, int(port)) as stream, trio.open_nursery() as nursery:
        yield Messages(
            await wrap_client_stream(
                nursery, stream, f"{host}:{port}", "/state", subprotocols=offers, extra_headers=origin
            )
        )
        nursery.cancel_scope.cancel()


class Messages:
    def __init__(self, socket):
        self._socket = socket

    async def next(self):
        message = json.loads(await self._socket.get_message())
        if "number" in message:
            await self._socket.send_message('{"shown": 1}')
        return message

    async def snapshot(self):
        while "snapshot" not in (message := await self.next()):
            pass
        return message["snapshot"]

    async def event(self, kind):
        while True:
            for event in (await self.next()).get("events", ()):
                if event["kind"] == kind:
                    return event

    async def answer(self, question):
        await self._socket.send_message(json.dumps({"explain": question}))
        while "explained" not in (message := await self.next()):
            pass
        return message["explained"]


async def pick_seen(**options):
    """A pick as a viewer gets it, of a call with a secret in its metadata."""
    async with (
        Mesh.run(1) as mesh,
        mesh.channel() as channel,
        trxds.admin.serve(channel, address=Admin("127.0.0.1:0", **options)) as address,
        viewer(address) as messages,
    ):
        await messages.snapshot()
        await channel.method(METHOD, None, None)(b"", metadata=[("authorization", "secret")])
        return await messages.event("pick")


async def test_the_values_of_metadata_stay_in_the_program():
    assert (await pick_seen())["metadata"] == {"authorization": "…"}


async def test_the_program_may_allow_the_page_to_show_metadata():
    assert (await pick_seen(metadata=True))["metadata"] == {"authorization": "secret"}


async def test_two_channels_are_on_one_page_and_both_can_be_asked():
    async with (
        Mesh.run(1) as mesh,
        mesh.channel() as one,
        mesh.channel() as other,
        trxds.admin.serve(one, other) as address,
        viewer(address) as messages,
    ):
        assert (await messages.snapshot())["channels"].keys() == {"shop", "shop#2"}
        told = await messages.answer({"id": 1, "channel": "shop#2", "method": METHOD, "metadata": []})
        assert told["method"] == METHOD


async def test_a_page_with_a_token_is_served_on_every_address_to_clients_that_have_it():
    token = secrets.token_urlsafe()
    async with (
        Mesh.run(1) as mesh,
        mesh.channel() as channel,
        trxds.admin.serve(channel, address=Admin("0.0.0.0:0", token)) as address,
    ):
        with pytest.RaisesGroup(ConnectionRejected, flatten_subgroups=True):
            async with viewer(address):
                raise AssertionError("it was let in")
        async with viewer(address, token) as messages:
            await messages.snapshot()


def test_the_link_to_a_page_on_all_addresses_uses_loopback_and_has_the_token_in_its_fragment():
    assert page_url("0.0.0.0:9901", "secret") == "http://127.0.0.1:9901/#token=secret"
    assert page_url("[::]:9901") == "http://[::1]:9901/"


def test_the_link_to_a_page_with_tls_is_https():
    assert page_url("10.0.0.1:9901", "secret", tls=True) == "https://10.0.0.1:9901/#token=secret"


def test_a_browser_cannot_open_a_unix_socket():
    with pytest.raises(ValueError, match=r"serve the admin surface at 127\.0\.0\.1:PORT"):
        page_url("unix:/run/shop.sock")


async def test_a_port_that_is_taken_is_an_error_before_anything_is_served():
    async with Mesh.run(1) as mesh, mesh.channel() as channel, trxds.admin.serve(channel) as address:
        with pytest.raises(OSError):
            async with trxds.admin.serve(channel, address=address):
                raise AssertionError("it was served")


async def test_an_exception_in_the_block_of_the_page_is_raised_unchanged():
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        with pytest.raises(KeyError, match="mine"):
            async with trxds.admin.serve(channel):
                raise KeyError("mine")


async def test_the_end_of_the_block_disconnects_viewers_and_leaves_no_task():
    watching = trio.Event()

    async def watch(address):
        with pytest.RaisesGroup(ConnectionClosed, flatten_subgroups=True):
            async with viewer(address) as messages:
                await messages.snapshot()
                watching.set()
                while True:
                    await messages.next()

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        async with trio.open_nursery() as nursery, trxds.admin.serve(channel) as address:
            nursery.start_soon(watch, address)
            await watching.wait()
            names = {f"admin/{address}", "admin/page/write", "admin/state"}
            assert names <= set(task_names())
        assert names & set(task_names()) == set()
