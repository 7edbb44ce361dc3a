"""Calls are retried by a route's retry policy (A6, A44)."""

from random import Random

import pytest
import trio
import trio.lowlevel
import trio.testing
from support.bad_peers import listening, website
from support.failing import PATH, Failing, failing
from support.mesh import Mesh, bidi, method
from support.method_config import configured, for_all

from trxds import RpcError, StatusCode
from trxds.client.call import CallSteps
from trxds.client.retry import RetryState
from trxds.core.metadata import EMPTY, Metadata
from trxds.core.status import Status
from trxds.resources.retry_policy import RetryPolicy
from trxds.testing import resources as xds
from trxds.transport.options import WireOptions

UNAVAILABLE = Status(StatusCode.UNAVAILABLE)
POLICY = RetryPolicy(frozenset({StatusCode.UNAVAILABLE}), 4, 1.0, 3.0)


def pushback(text):
    return Metadata([("grpc-retry-pushback-ms", text)])


class TestByValues:
    def test_retry_delays_double_up_to_the_maximum_with_20_percent_jitter(self):
        retries = RetryState(POLICY, Random(1))
        delays = [retries.next_delay(UNAVAILABLE, EMPTY) for _ in range(3)]
        assert [round(delay / at, 1) for delay, at in zip(delays, (1, 2, 3), strict=True)] == pytest.approx(
            [1, 1, 1], abs=0.2
        )

    def test_a_retry_policy_allows_max_attempts(self):
        retries = RetryState(POLICY, Random(1))
        assert [retries.next_delay(UNAVAILABLE, EMPTY) is None for _ in range(4)] == [False, False, False, True]

    def test_a_status_that_is_not_retryable_is_final(self):
        assert RetryState(POLICY, Random(1)).next_delay(Status(StatusCode.INTERNAL), EMPTY) is None

    def test_a_first_delay_above_the_maximum_is_the_maximum(self):
        policy = RetryPolicy(POLICY.codes, 4, 9.0, 3.0)
        assert RetryState(policy, Random(1)).next_delay(UNAVAILABLE, EMPTY) == pytest.approx(3, rel=0.2)

    @pytest.mark.parametrize(
        ("text", "delay"), [("250", 0.25), ("+5", 0.005), ("-0", 0.0), (str(2**31 - 1), 2147483.647)]
    )
    def test_a_pushback_sets_the_retry_delay(self, text, delay):
        assert RetryState(POLICY, Random(1)).next_delay(UNAVAILABLE, pushback(text)) == delay

    def test_after_a_pushback_the_delays_begin_anew(self):
        retries = RetryState(POLICY, Random(1))
        delays = [retries.next_delay(UNAVAILABLE, trailing) for trailing in (EMPTY, pushback("250"), EMPTY)]
        assert delays == [pytest.approx(1, rel=0.2), 0.25, pytest.approx(1, rel=0.2)]

    @pytest.mark.parametrize("text", ["-1", "soon", "", "+", "++5", "1.5", str(2**31), "9" * 400, "9" * 5000])
    def test_a_pushback_of_never_stops_retries(self, text):
        assert RetryState(POLICY, Random(1)).next_delay(UNAVAILABLE, pushback(text)) is None

    def test_several_pushbacks_stop_retries(self):
        trailing = Metadata([*pushback("250"), *pushback("-1")])
        assert RetryState(POLICY, Random(1)).next_delay(UNAVAILABLE, trailing) is None


async def test_a_failed_attempt_is_retried_after_its_backoff(autojump_clock):
    async with failing(2) as (_, channel, handler):
        began = trio.current_time()
        assert await method(channel, PATH)(b"x") == b"x"
        assert 16 <= trio.current_time() - began <= 24
        assert [number for number, _ in handler.attempts] == [None, "1", "2"]


async def test_each_attempt_is_drawn_for_drops(autojump_clock):
    async with failing(1000, retries=1) as (mesh, channel, handler):
        half = {"category": "lb", "drop_percentage": {"numerator": 50, "denominator": "HUNDRED"}}
        mesh.plane.put(xds.endpoints("cart", xds.locality(*mesh.hosts)) | {"policy": {"drop_overloads": [half]}})
        await trio.sleep(1)
        for _ in range(40):
            with pytest.raises(RpcError):
                await method(channel, PATH)(b"fail")
        numbers = [number for number, _ in handler.attempts]
        assert 0 < numbers.count("1") < numbers.count(None) < 40


async def test_headers_that_an_attempt_adds_are_not_sent_by_the_next_call(autojump_clock):
    async with failing(2) as (_, channel, handler):
        for _ in range(2):
            await method(channel, PATH)(b"x", metadata=[("user", "7")], compression="gzip")
        assert [number for number, _ in handler.attempts] == [None, "1", "2", None]


async def test_a_retried_call_has_the_status_of_its_last_attempt(autojump_clock):
    async with failing(9) as (_, channel, handler):
        with pytest.raises(RpcError, match="UNAVAILABLE: told to"):
            await method(channel, PATH)(b"x")
        assert len(handler.attempts) == 4


async def test_a_call_with_response_headers_is_not_retried(autojump_clock):
    async with failing(1, headers=True) as (_, channel, handler):
        with pytest.raises(RpcError, match="told to"):
            await method(channel, PATH)(b"x")
        assert len(handler.attempts) == 1


async def test_a_proxys_http_error_with_a_body_is_no_response_and_is_retried(autojump_clock):
    attempts, proxy = [], "10.0.9.9:50051"
    async with failing(0) as (mesh, channel, _), listening(mesh.network, proxy, website("503", attempts)):
        mesh.endpoints("cart", [proxy])
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(RpcError, match="HTTP status 503"):
            await method(channel, PATH)(b"x")
        assert attempts == [None, b"1", b"2", b"3"]


async def test_a_retry_that_follows_a_failed_pick_may_find_a_host(nursery, autojump_clock):
    async with failing(0) as (mesh, channel, _):
        mesh.endpoints("cart", [])
        await trio.testing.wait_all_tasks_blocked()

        async def bring_the_hosts_back():
            await trio.sleep(5)  # within the first backoff
            mesh.endpoints("cart", mesh.hosts)

        nursery.start_soon(bring_the_hosts_back)
        assert await method(channel, PATH)(b"x") == b"x"


async def test_a_stream_whose_retry_finds_no_host_fails_with_that_status(autojump_clock):
    async with failing(1, retries=1) as (mesh, channel, handler), bidi(channel, PATH).open() as call:
        mesh.endpoints("cart", [])
        await call.send(b"fail")
        for _ in range(2):
            with pytest.raises(RpcError) as caught:
                await call.receive()
            assert caught.value.status.code is StatusCode.UNAVAILABLE
            mesh.endpoints("cart", mesh.hosts)  # too late
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(RpcError, match="UNAVAILABLE"):
                await call.send(b"more")
        assert caught.value.status.message != "told to" and len(handler.attempts) == 1


async def test_a_replay_does_not_wait_for_flow_control_of_an_unread_peer(autojump_clock):
    async def amplify(call):
        if call.metadata.first("grpc-previous-rpc-attempts") is None:
            for _ in range(20):
                await call.receive()
            call.abort(StatusCode.UNAVAILABLE, "told to")
        async for message in call:
            await call.send(message * 20)

    async with failing(0, options=WireOptions(stream_window=65_535)) as (mesh, channel, _):
        (server,) = mesh.servers.values()
        server.handlers[PATH] = amplify
        async with bidi(channel, PATH).open(timeout=60) as call:
            for _ in range(20):
                await call.send(b"x" * 12_000)
            call.done_sending()
            assert len([reply async for reply in call]) == 20


@pytest.mark.parametrize("code", [StatusCode.UNAVAILABLE, StatusCode.NOT_FOUND])
async def test_a_call_that_only_sends_learns_that_no_attempt_follows(code, autojump_clock):
    async with failing(1, retries=1, code=code) as (mesh, channel, _), bidi(channel, PATH).open() as call:
        mesh.endpoints("cart", [])
        await call.send(b"fail")
        await trio.sleep(1)
        with pytest.raises(RpcError) as caught:
            await call.send(b"more")
        assert caught.value.status.code is code
        with pytest.raises(RpcError):
            await call.receive()


async def test_a_call_that_only_sends_is_retried(autojump_clock):
    async with failing(1) as (_, channel, handler), bidi(channel, PATH).open() as call:
        await call.send(b"fail")
        await trio.sleep(1)
        await call.send(b"more")
        call.done_sending()
        assert [message async for message in call] == [b"fail", b"more"]
        assert [messages for _, messages in handler.attempts] == [[b"fail"], [b"fail", b"more"]]


async def test_messages_behind_the_deadline_take_no_token_of_the_throttle(monkeypatch, autojump_clock):
    async def silent(call):
        await trio.sleep_forever()

    retry = {
        "maxAttempts": 2,
        "initialBackoff": "1s",
        "maxBackoff": "1s",
        "backoffMultiplier": 1,
        "retryableStatusCodes": ["DEADLINE_EXCEEDED"],
    }
    document = for_all({"maxTokens": 2, "tokenRatio": 1}, retryPolicy=retry)
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, document) as channel:
        mesh.servers[mesh.hosts[0]].handlers[PATH] = silent
        async with bidi(channel, PATH).open(timeout=2) as call:
            with pytest.raises(RpcError):
                await call.receive()
            with pytest.raises(RpcError, match="not done after 2 s, waiting for the response"):
                await CallSteps(call).send_ahead([b"late"])  # from another thread
        assert channel._state.throttle.allows_retry


async def test_the_deadline_of_a_call_covers_all_retries(autojump_clock):
    async with failing(9) as (_, channel, _):
        began = trio.current_time()
        with pytest.raises(RpcError, match="waiting for the next attempt, after UNAVAILABLE: told to"):
            await method(channel, PATH)(b"x", timeout=15)
        assert trio.current_time() - began == pytest.approx(15)


async def test_every_retry_of_a_session_goes_to_its_host(autojump_clock):
    async with failing(0, hosts=3) as (mesh, channel, _), channel.session() as session:
        host = (await method(session)(b"")).decode()
        for server in mesh.servers.values():
            server.handlers[PATH] = Failing(9)
        with pytest.raises(RpcError):
            await method(session, PATH)(b"x")
        assert [len(server.handlers[PATH].attempts) for server in mesh.servers.values()] == [
            4 * (address == host) for address in mesh.hosts
        ]
