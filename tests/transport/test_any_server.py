"""Every call ends without a crash, whatever a server does and however its bytes are cut into reads."""

from __future__ import annotations

import contextlib
from typing import Any

import h2.config
import h2.connection
import h2.exceptions
import pytest
import trio
from h2.settings import SettingCodes
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from trio.testing import MockClock, wait_all_tasks_blocked

from trxds.core.status import Status, StatusCode
from trxds.testing.network import memory_stream_pair
from trxds.transport.client_stream import ClientStream
from trxds.transport.connection import Connection
from trxds.transport.options import WireOptions
from trxds.transport.request import Request

pytestmark = pytest.mark.slow

HEADERS = [(b":status", b"200"), (b"content-type", b"application/grpc")]
OPTIONS = WireOptions(stream_window=10_000, max_frame=16_384, unsent_bound=5_000)

streams = st.sampled_from([1, 3, 5])
actions = st.one_of(
    st.tuples(st.just("send_headers"), streams, st.just(HEADERS)),
    st.tuples(st.just("send_headers"), streams, st.just([(b"grpc-status", b"0")]), st.just(True)),
    st.tuples(st.just("send_headers"), streams, st.just([*HEADERS, (b"grpc-status", b"5")]), st.just(True)),
    st.tuples(st.just("send_data"), streams, st.sampled_from([b"\0\0\0\0\0", b"\0\0\0\x40\0", bytes(9000), b"\1\0"])),
    st.tuples(st.just("send_data"), streams, st.just(b""), st.just(True)),
    st.tuples(st.just("reset_stream"), streams, st.sampled_from([0, 7, 8, 4711])),
    st.tuples(st.just("increment_flow_control_window"), st.sampled_from([1, 10_000, 2**30]), streams),
    st.tuples(st.just("increment_flow_control_window"), st.sampled_from([1, 10_000, 2**30])),
    st.tuples(st.just("update_settings"), st.sampled_from([{SettingCodes.INITIAL_WINDOW_SIZE: 0}])),
    st.tuples(st.just("update_settings"), st.sampled_from([{SettingCodes.INITIAL_WINDOW_SIZE: 2**20}])),
    st.tuples(st.just("update_settings"), st.sampled_from([{SettingCodes.MAX_CONCURRENT_STREAMS: 1}])),
    st.tuples(st.just("ping"), st.just(b"12345678")),
    st.tuples(st.just("flush")),
    st.tuples(st.just("read")),
)


async def caller(stream: ClientStream, sends: int, single: bool) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send, stream, sends)
        if single:
            await stream.receive_unary()
        else:
            while await stream.receive() is not None:
                pass


async def send(stream: ClientStream, count: int) -> None:
    for _ in range(count):
        await stream.send(bytes(30_000))
    stream.end()


class AnyServer:
    """A server that performs the given actions, as far as h2 allows them."""

    def __init__(self, transport: trio.abc.Stream) -> None:
        self.transport = transport
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, validate_outbound_headers=False)
        )
        self.h2.initiate_connection()

    async def act(self, name: str, *args: Any) -> None:
        if name == "flush":
            await self.transport.send_all(self.h2.data_to_send())
            await wait_all_tasks_blocked()
        elif name == "read":
            with trio.move_on_after(0.001):
                self.h2.receive_data(await self.transport.receive_some())
        else:
            with contextlib.suppress(h2.exceptions.ProtocolError, KeyError):  # even this server has limits
                getattr(self.h2, name)(*args)


@pytest.mark.parametrize("lean", [True, False])
@settings(deadline=None, max_examples=150)
@given(script=st.lists(actions, max_size=40), single=st.booleans(), sends=st.integers(0, 2))
def test_every_call_ends_without_a_crash_whatever_the_server_sends(
    lean: bool, script: list[tuple[Any, ...]], single: bool, sends: int
) -> None:
    async def story() -> None:
        ours, theirs = memory_stream_pair()
        connection = Connection(ours, peer="any", options=structs.replace(OPTIONS, lean=lean))
        server = AnyServer(theirs)
        with trio.fail_after(100):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.run)
                opened = [connection.open_stream(Request("/s/M", "s", one_reply=single)) for _ in range(4)]
                for stream in opened:
                    assert stream is not None
                    nursery.start_soon(caller, stream, sends, single)
                await wait_all_tasks_blocked()
                # The client has had enough, or the server drove itself into the wall.
                with contextlib.suppress(trio.BrokenResourceError, h2.exceptions.ProtocolError):
                    for action in (("read",), ("flush",), *script, ("flush",)):
                        await server.act(*action)
                connection.close(Status(StatusCode.CANCELLED, "closed"))
        assert all(stream is not None and stream.status is not None for stream in opened)

    trio.run(story, clock=MockClock(autojump_threshold=0))
