"""An attempt without a response is given up after its own timeout, and the call makes another one."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import Mesh, bidi, method
from support.plain import hosts_in_memory

from trxds import RpcError, StatusCode
from trxds.testing import resources as xds

PATH = "/shop.Cart/Slow"
RETRY = {
    "maxAttempts": 3,
    "initialBackoff": "1s",
    "maxBackoff": "1s",
    "backoffMultiplier": 1,
    "retryableStatusCodes": ["UNAVAILABLE"],
    "perAttemptRecvTimeout": "2s",
}
HEDGE = {"maxAttempts": 2, "hedgingDelay": "10s", "perAttemptRecvTimeout": "2s"}


class Slow:
    """Answers each attempt after so many seconds, with its number; the last delay holds for all later ones."""

    def __init__(self, *delays: float, headers: bool = False) -> None:
        self.delays, self.headers = delays, headers
        self.came: list[float] = []
        self.messages: list[list[bytes]] = []
        self.cancelled = 0

    async def __call__(self, call):
        number = len(self.came)
        self.came.append(trio.current_time())
        self.messages.append([])
        if self.headers:
            await call.send_initial_metadata()
        try:
            async for message in call:
                self.messages[number].append(message)
                await trio.sleep(self.delays[min(number, len(self.delays) - 1)])
                await call.send(b"%d" % number)
        except trio.Cancelled:
            self.cancelled += 1
            raise

    @property
    def times(self) -> list[int]:
        return [round(each - self.came[0]) for each in self.came]


@asynccontextmanager
async def slow(*delays: float, headers: bool = False, **policy):
    """A channel whose calls have this policy, and the handler of its host."""
    handler = Slow(*delays, headers=headers)
    config = {"methodConfig": [{"name": [{}], **(policy or {"retryPolicy": RETRY})}]}
    async with hosts_in_memory(0) as mesh:
        mesh.points_to(await mesh.add_host(handlers={PATH: handler}))
        async with mesh.channel(service_config=config) as channel:
            yield channel, handler


async def test_an_attempt_without_a_response_is_followed_by_another(autojump_clock):
    async with slow(60, 0) as (channel, handler):
        assert await method(channel, PATH)(b"x") == b"1"
        assert handler.times == [0, 3]  # the timeout, and about a second of backoff


async def test_an_attempt_that_is_given_up_is_reset_at_its_host(autojump_clock):
    async with slow(60, 0) as (channel, handler):
        await method(channel, PATH)(b"x")
        assert handler.cancelled == 1


async def test_a_response_in_time_ends_the_call(autojump_clock):
    async with slow(1.9) as (channel, handler):
        assert await method(channel, PATH)(b"x") == b"0"
        assert handler.times == [0]


async def test_a_call_whose_attempts_all_take_too_long_says_so(autojump_clock):
    async with slow(60) as (channel, handler):
        with pytest.raises(RpcError) as caught:
            await method(channel, PATH)(b"x")
        assert caught.value.status.code is StatusCode.DEADLINE_EXCEEDED
        assert "sent no response within 2 s, the attempt's timeout" in caught.value.status.message
        assert len(handler.came) == 3


async def test_the_deadline_of_the_call_goes_before_the_attempts_timeout(autojump_clock):
    async with slow(60) as (channel, handler):
        began = trio.current_time()
        with pytest.raises(RpcError, match=r"not done after 1 s"):
            await method(channel, PATH)(b"x", timeout=1)
        assert trio.current_time() - began == pytest.approx(1)
        assert len(handler.came) == 1


async def test_response_headers_end_the_attempts_timeout(autojump_clock):
    async with slow(60, headers=True) as (channel, handler):
        assert await method(channel, PATH)(b"x") == b"0"
        assert handler.times == [0]


async def test_a_stream_is_replayed_by_the_attempt_after_one_that_took_too_long(autojump_clock):
    async with slow(60, 0) as (channel, handler), bidi(channel, PATH).open() as call:
        await call.send(b"one")
        await call.send(b"two")
        call.done_sending()
        assert [message async for message in call] == [b"1", b"1"]
        assert handler.messages[1] == [b"one", b"two"]


async def test_the_initial_metadata_of_a_stream_come_from_a_later_attempt(autojump_clock):
    async with slow(60, 0) as (channel, handler), bidi(channel, PATH).open() as call:
        await call.send(b"one")
        await call.wait_initial_metadata()
        assert len(handler.came) == 2


async def test_a_stream_that_has_sent_more_than_can_be_buffered_has_no_attempt_timeout(autojump_clock):
    async with slow(60) as (channel, handler), bidi(channel, PATH).open() as call:
        for _ in range(2):
            await call.send(bytes(200_000))
        assert await call.receive() == b"0"
        assert len(handler.came) == 1


async def test_the_wait_for_a_host_does_not_count(autojump_clock):
    handler = Slow(1.5)
    config = {"methodConfig": [{"name": [{}], "retryPolicy": RETRY}]}
    async with hosts_in_memory(0) as mesh:
        mesh.points_to(await mesh.add_host(handlers={PATH: handler}))
        mesh.network.refuse(mesh.hosts[0])
        async with mesh.channel(service_config=config) as channel:
            answers: list[bytes] = []

            async def ask() -> None:
                answers.append(await method(channel, PATH)(b"x", wait_for_ready=True))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await trio.sleep(10)
                mesh.network.restore(mesh.hosts[0])
    assert answers == [b"0"]


async def test_an_attempt_of_a_hedged_call_that_takes_too_long_is_followed_by_another_at_once(autojump_clock):
    async with slow(60, 0, hedgingPolicy=HEDGE) as (channel, handler):
        assert await method(channel, PATH)(b"x") == b"1"
        assert handler.times == [0, 2]


async def test_attempts_of_a_hedged_call_that_all_take_too_long_end_it(autojump_clock):
    async with slow(60, hedgingPolicy=HEDGE) as (channel, handler):
        with pytest.raises(RpcError, match="the attempt's timeout"):
            await method(channel, PATH)(b"x")
        assert handler.times == [0, 2]


async def test_the_per_try_timeout_of_a_route_is_ignored(autojump_clock):
    """A44, unless it is switched on."""
    handler = Slow(5)
    async with Mesh.run(0) as mesh:
        mesh.endpoints("cart", [await mesh.add_host(handlers={PATH: handler})])
        entry = xds.route("cart")
        entry["route"]["retry_policy"] = {"retry_on": "unavailable,5xx", "num_retries": 1, "per_try_timeout": "2s"}
        mesh.plane.put(xds.routes("routes", entry))
        async with mesh.channel() as channel:
            assert await method(channel, PATH)(b"x") == b"0"


@pytest.fixture
def switched_on(monkeypatch):
    monkeypatch.setenv("TRXDS_XDS_PER_TRY_TIMEOUT", "true")


async def test_the_per_try_timeout_of_a_route_holds_where_it_is_switched_on(autojump_clock, switched_on):
    handler = Slow(60, 0)
    async with Mesh.run(0) as mesh:
        mesh.endpoints("cart", [await mesh.add_host(handlers={PATH: handler})])
        entry = xds.route("cart")
        back_off = {"base_interval": "1s", "max_interval": "1s"}
        entry["route"]["retry_policy"] = {
            "retry_on": "5xx,unavailable", "num_retries": 2, "retry_back_off": back_off, "per_try_timeout": "2s"
        }  # fmt: skip
        mesh.plane.put(xds.routes("routes", entry))
        async with mesh.channel() as channel:
            assert await method(channel, PATH)(b"x") == b"1"
    assert handler.times == [0, 3]


class Refusing:
    """Ends each call at once with this code."""

    def __init__(self, code: StatusCode) -> None:
        self.code, self.calls = code, 0

    async def __call__(self, call):
        self.calls += 1
        call.abort(self.code, "no")


async def test_a_status_that_came_in_time_counts_however_late_it_is_read(autojump_clock):
    handler = Refusing(StatusCode.PERMISSION_DENIED)
    config = {"methodConfig": [{"name": [{}], "retryPolicy": RETRY}]}
    async with hosts_in_memory(0) as mesh:
        mesh.points_to(await mesh.add_host(handlers={PATH: handler}))
        async with mesh.channel(service_config=config) as channel, bidi(channel, PATH).open() as call:
            await call.send(b"one")
            await trio.sleep(5)
            with pytest.raises(RpcError, match="PERMISSION_DENIED"):
                await call.receive()
    assert handler.calls == 1


async def test_two_tasks_that_wait_for_one_response_make_one_attempt_after_the_other(autojump_clock):
    async with slow(60, 0) as (channel, handler), bidi(channel, PATH).open() as call:
        await call.send(b"one")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call.wait_initial_metadata)
            assert await call.receive() == b"1"
    assert handler.times == [0, 3]


@pytest.mark.parametrize(("conditions", "attempts"), [("unavailable", 1), ("unavailable,5xx", 2)])
async def test_a_route_repeats_an_attempt_that_took_too_long_under_envoys_conditions(
    autojump_clock, switched_on, conditions, attempts
):
    handler = Slow(60)
    async with Mesh.run(0) as mesh:
        mesh.endpoints("cart", [await mesh.add_host(handlers={PATH: handler})])
        entry = xds.route("cart")
        entry["route"]["retry_policy"] = {"retry_on": conditions, "num_retries": 1, "per_try_timeout": "2s"}
        mesh.plane.put(xds.routes("routes", entry))
        async with mesh.channel() as channel:
            with pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
                await method(channel, PATH)(b"x")
    assert len(handler.came) == attempts
