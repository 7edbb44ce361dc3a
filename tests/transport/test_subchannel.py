"""A subchannel passes through its states, on a clock that jumps."""

from __future__ import annotations

import pytest
import trio
from support.subchannel_states import ADDRESS, CONNECTING, FAILURE, HANDLERS, IDLE, READY, Middle, ready
from support.tasks import task_names
from trio.testing import wait_all_tasks_blocked

from trxds.core.status import Status, StatusCode
from trxds.testing import serve
from trxds.transport.health_watch import HealthCheck
from trxds.transport.request import Request


async def test_an_idle_subchannel_is_no_task(network, states, autojump_clock) -> None:
    await trio.sleep(1000)
    assert states.host.state is IDLE and network.attempts[ADDRESS] == 0
    assert states.host.open_stream(Request("/s/Echo", "s")) is None
    assert repr(states.host) == "<Subchannel 10.0.0.1:443 IDLE>"


async def test_a_requested_connection_becomes_ready_and_takes_calls(network, states, autojump_clock) -> None:
    async with serve(HANDLERS, network=network, address=ADDRESS):
        await ready(states)
        stream = states.host.open_stream(Request("/s/Echo", "s", one_reply=True))
        assert repr(states.host) == "<Subchannel 10.0.0.1:443 READY, 1 streams>"
        stream.send_nowait(b"hello", end=True)
        assert await stream.receive_unary() == b"hello"
        states.host.request_connection()  # nothing: it is READY
        await wait_all_tasks_blocked()
        assert network.attempts[ADDRESS] == 1


async def test_refused_connection_attempts_back_off(network, states, nursery, autojump_clock) -> None:
    nursery.start_soon(states.watch)

    async def ask_again() -> None:
        while True:
            states.host.request_connection()
            await trio.sleep(0.1)

    nursery.start_soon(ask_again)
    await trio.sleep(7.99)
    failures = [when for state, when in states.seen if state is FAILURE]
    assert failures == pytest.approx([0, 1, 2.6, 5.16], abs=0.25)
    idles = [when for state, when in states.seen if state is IDLE]
    assert len(idles) >= 2 and network.attempts[ADDRESS] == 4


async def test_a_failed_connection_attempt_names_the_address_and_the_cause(network, states, autojump_clock) -> None:
    states.host.request_connection()
    await states.until(FAILURE)
    text = "10.0.0.1:443: cannot connect: Connection refused"
    assert states.host.error == Status(StatusCode.UNAVAILABLE, text)


async def test_a_connection_attempt_has_at_least_twenty_seconds(network, states, nursery, autojump_clock) -> None:
    network.black_hole(ADDRESS)
    nursery.start_soon(states.watch)
    states.host.request_connection()
    await trio.sleep(30)
    assert states.seen == [(CONNECTING, 0.0), (FAILURE, 20.0), (IDLE, 20.1)]
    assert "no answer in time" in states.host.error.message


async def test_a_peer_that_accepts_and_sends_no_settings_is_a_failed_attempt(network, states, autojump_clock) -> None:
    network.listen(ADDRESS)
    states.host.request_connection()
    await states.until(IDLE)
    assert states.host.error.message == "10.0.0.1:443: connected, but no HTTP/2 SETTINGS came in time"


async def test_a_peer_of_another_protocol_is_a_failed_attempt_that_says_so(
    network, states, autojump_clock, nursery
) -> None:
    async def http1(stream: trio.abc.Stream) -> None:
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    nursery.start_soon(trio.serve_listeners, http1, [network.listen(ADDRESS)])
    states.host.request_connection()
    await states.until(FAILURE)
    assert states.host.error.message.startswith("10.0.0.1:443: FRAME_SIZE_ERROR: it does not speak HTTP/2")


async def test_the_backoff_is_reset_by_ready(network, states, nursery, autojump_clock) -> None:
    for _ in range(3):
        states.host.request_connection()
        await states.until(FAILURE)
        await states.until(IDLE)
    async with serve(HANDLERS, network=network, address=ADDRESS):
        await ready(states)
        await trio.sleep(1)  # or the next attempt would wait: nobody used the connection
    await states.until(IDLE)
    began = trio.current_time()
    states.host.request_connection()
    await states.until(FAILURE)
    await states.until(IDLE)
    assert trio.current_time() - began == pytest.approx(1)


async def test_a_lost_connection_is_idle_at_once_with_the_cause(network, states, autojump_clock) -> None:
    async with serve(HANDLERS, network=network, address=ADDRESS):
        await ready(states)
        stream = states.host.open_stream(Request("/s/Hang", "s"))
        network.cut(ADDRESS)
        await stream.receive()
        assert states.host.state is IDLE
        assert states.host.error == stream.status
        assert stream.status.code is StatusCode.UNAVAILABLE and ADDRESS in stream.status.message


async def test_old_streams_finish_after_a_goaway_while_new_ones_have_a_new_connection(
    network, states, autojump_clock
) -> None:
    async with serve(HANDLERS, network=network, address=ADDRESS) as server:
        await ready(states)
        old = states.host.open_stream(Request("/s/Hang", "s"))
        await old.send(b"1")
        assert await old.receive() == b"1"
        server.goaway()
        await states.until(IDLE)
        assert states.host.open_stream(Request("/s/Echo", "s")) is None
        await ready(states)
        new = states.host.open_stream(Request("/s/Echo", "s", one_reply=True))
        new.send_nowait(b"new", end=True)
        assert await new.receive_unary() == b"new"
        await old.send(b"2", end=True)
        assert await old.receive() == b"2" and await old.receive() is None
        assert old.status.ok
        await wait_all_tasks_blocked()
        assert len(server.connections) == 1


async def test_the_new_state_is_posted_before_a_stream_is_refused(network, states, autojump_clock) -> None:
    async with serve(HANDLERS, network=network, address=ADDRESS) as server:
        await ready(states)
        server.goaway()
        while (stream := states.host.open_stream(Request("/s/Echo", "s"))) is not None:
            stream.cancel()
            await trio.lowlevel.checkpoint()
        assert states.host.state is IDLE
        letters = await states.queue.next(deadline=trio.current_time())
        assert letters == {("host", ADDRESS): states.host}


SETTINGS_FRAME = b"\0\0\0\4\0\0\0\0\0"


def goaway_frame(code: int) -> bytes:
    return b"\0\0\x08\7\0\0\0\0\0" + bytes(4) + code.to_bytes(4)


@pytest.mark.parametrize(("code", "connections"), [(0, 2), (11, 1)])
async def test_a_goaway_that_comes_with_the_settings_again_and_again_backs_off(
    network, states, autojump_clock, nursery, code, connections
) -> None:
    accepted: list[float] = []

    async def unwilling(stream: trio.abc.Stream) -> None:
        accepted.append(trio.current_time())
        await stream.send_all(SETTINGS_FRAME + goaway_frame(code))

    nursery.start_soon(trio.serve_listeners, unwilling, [network.listen(ADDRESS)])
    for _ in range(2):
        states.host.request_connection()
        await states.until(FAILURE)
        await states.until(IDLE)
    begins = accepted[::connections]
    assert len(accepted) == 2 * connections and begins[1] - begins[0] == pytest.approx(1)


async def test_a_connection_that_a_server_had_accepted_before_it_shut_down_is_replaced_at_once(
    network, states, autojump_clock, nursery
) -> None:
    """An old worker of nginx does that at a reload, while the new one listens already."""
    accepted: list[float] = []

    async def reloading(stream: trio.abc.Stream) -> None:
        accepted.append(trio.current_time())
        await stream.send_all(SETTINGS_FRAME + (goaway_frame(0) if len(accepted) == 1 else b""))
        await trio.sleep_forever()

    nursery.start_soon(trio.serve_listeners, reloading, [network.listen(ADDRESS)])
    states.host.request_connection()
    await wait_all_tasks_blocked()
    assert states.host.state is READY and accepted[0] == accepted[1] == trio.current_time()


async def no_metadata(host: object) -> list[tuple[bytes, bytes]]:
    return []


@pytest.mark.parametrize("health_check", [None, HealthCheck("", "s", no_metadata, Middle())])
async def test_a_server_that_ends_each_unused_connection_is_connected_once_a_second(
    health_check, network, pool, states, autojump_clock
) -> None:
    pool.use_health_check(health_check)
    async with serve(HANDLERS, network=network, address=ADDRESS) as server:
        began = trio.current_time()
        for _ in range(4):
            await ready(states)
            await wait_all_tasks_blocked()
            server.goaway()
            await states.until(IDLE)
        assert trio.current_time() - began == pytest.approx(3, abs=0.01)


async def test_a_load_report_is_no_use_of_a_connection(network, states, nursery, autojump_clock) -> None:
    async with serve(HANDLERS, network=network, address=ADDRESS) as server:
        began = trio.current_time()
        for _ in range(4):
            await ready(states)
            nursery.start_soon(states.host.listen, "/s/Hang", b"", lambda report: None)
            await wait_all_tasks_blocked()
            server.goaway()
            await states.until(IDLE)
        assert trio.current_time() - began == pytest.approx(3, abs=0.01)


async def test_a_connection_that_had_a_stream_is_replaced_at_once(network, states, autojump_clock) -> None:
    async with serve(HANDLERS, network=network, address=ADDRESS) as server:
        began = trio.current_time()
        for _ in range(4):
            await ready(states)
            states.host.open_stream(Request("/s/Hang", "s"))
            server.goaway()
            await states.until(IDLE)
        assert trio.current_time() - began < 0.1


async def test_retiring_ends_the_wait_after_an_unused_connection(network, states, autojump_clock) -> None:
    async with serve(HANDLERS, network=network, address=ADDRESS) as server:
        await ready(states)
        server.goaway()
        await states.until(IDLE)
        states.host.request_connection()
        assert states.host.state is CONNECTING
        states.lease.release()
        await wait_all_tasks_blocked()
        assert [name for name in task_names() if name.startswith("subchannel/")] == []
