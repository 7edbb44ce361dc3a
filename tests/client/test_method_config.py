"""Calls follow the method config: wait for ready, size limits, retries and the retry throttle (A2, A6)."""

import contextlib

import pytest
import trio
from support.hedged import HEDGING
from support.mesh import Mesh, bidi, method
from support.method_config import configured, for_all

from trxds import RpcError, StatusCode
from trxds.client.retry_throttle import RetryThrottle
from trxds.resolver.service_config import RetryThrottling

PATH = "/shop.Cart/Fail"
RETRY = {
    "maxAttempts": 3,
    "initialBackoff": "10s",
    "maxBackoff": "100s",
    "backoffMultiplier": 3,
    "retryableStatusCodes": ["UNAVAILABLE"],
}


class Failing:
    """Fails the first calls, and records the time and the attempt number of each."""

    def __init__(self, times, code=StatusCode.UNAVAILABLE, trailing=(), headers_from=None, after=0):
        self.left, self.code, self.trailing = times, code, trailing
        self.headers_from, self.after = headers_from, after  # the attempt with headers, and the messages that it reads
        self.attempts = []

    async def __call__(self, call):
        self.attempts.append((trio.current_time(), call.metadata.first("grpc-previous-rpc-attempts")))
        if len(self.attempts) == self.headers_from:
            await call.send_initial_metadata()
        if self.left:
            self.left -= 1
            for _ in range(self.after):
                await call.receive()
            call.set_trailing_metadata(self.trailing)
            call.abort(self.code, "told to")
        async for message in call:
            await call.send(message)


def everywhere(mesh, handler):
    for server in mesh.servers.values():
        server.handlers[PATH] = handler
    return handler


class TestTheThrottle:
    RULES = RetryThrottling(10, 0.5)

    def test_the_throttle_allows_retries_while_more_than_half_of_its_tokens_are_left(self):
        throttle = RetryThrottle(self.RULES)
        allowed = []
        for _ in range(6):
            throttle.record_failure()
            allowed.append(throttle.allows_retry)
        assert allowed == [True, True, True, True, False, False]

    def test_the_throttle_is_filled_by_successes_up_to_max_tokens(self):
        throttle = RetryThrottle(self.RULES)
        throttle.record_failure()
        for expected in (9.5, 10, 10):
            throttle.record_success()
            assert throttle.tokens == expected

    def test_the_throttle_never_has_less_than_zero_tokens(self):
        throttle = RetryThrottle(RetryThrottling(1, 1))
        throttle.record_failure()
        throttle.record_failure()
        assert throttle.tokens == 0

    def test_the_throttle_keeps_its_share_of_tokens_with_another_size(self):
        throttle = RetryThrottle(self.RULES)
        throttle.record_failure()
        assert RetryThrottle(RetryThrottling(100, 0.5), throttle).tokens == pytest.approx(90)


async def test_a_retry_policy_of_the_service_config_is_followed_with_its_backoff(monkeypatch, autojump_clock):
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(retryPolicy=RETRY)) as channel:
        handler = everywhere(mesh, Failing(9))
        with pytest.raises(RpcError, match="told to"):
            await method(channel, PATH)(b"x")
        at = [when for when, _ in handler.attempts]
        assert [number for _, number in handler.attempts] == [None, "1", "2"]
        assert at[1] - at[0] == pytest.approx(10, rel=0.21)
        assert at[2] - at[1] == pytest.approx(30, rel=0.21)


async def test_a_throttled_call_is_not_retried(monkeypatch, autojump_clock):
    rules = {"maxTokens": 4, "tokenRatio": 0.5}
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(rules, retryPolicy=RETRY)) as channel:
        handler = everywhere(mesh, Failing(9))
        with pytest.raises(RpcError):
            await method(channel, PATH)(b"x")
        assert len(handler.attempts) == 2  # 4 tokens, then 3, then 2, which is half of them


async def test_successful_calls_fill_the_retry_throttle(monkeypatch, autojump_clock):
    rules = {"maxTokens": 4, "tokenRatio": 1}
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(rules, retryPolicy=RETRY)) as channel:
        handler = everywhere(mesh, Failing(2))
        with pytest.raises(RpcError):
            await method(channel, PATH)(b"x")
        for _ in range(2):
            await method(channel, PATH)(b"x")
        handler.left = 1
        assert await method(channel, PATH)(b"x") == b"x"


async def test_a_status_that_is_not_retryable_takes_no_token(monkeypatch, autojump_clock):
    rules = {"maxTokens": 4, "tokenRatio": 1}
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(rules, retryPolicy=RETRY)) as channel:
        everywhere(mesh, Failing(1, StatusCode.ABORTED))
        with pytest.raises(RpcError):
            await method(channel, PATH)(b"x")
        assert channel._state.throttle.tokens == 4


@pytest.mark.parametrize("policy", [{"retryPolicy": RETRY}, {"hedgingPolicy": HEDGING}])
async def test_a_call_that_fails_after_response_headers_takes_a_token_if_its_status_counts(
    monkeypatch, autojump_clock, policy
):
    rules = {"maxTokens": 4, "tokenRatio": 1}
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(rules, **policy)) as channel:
        tokens = []
        for code in (StatusCode.UNAVAILABLE, StatusCode.ABORTED):
            everywhere(mesh, Failing(1, code, headers_from=1))
            with pytest.raises(RpcError):
                await method(channel, PATH)(b"x")
            tokens.append(channel._state.throttle.tokens)
        assert tokens == [3, 3]


async def test_a_call_that_is_retried_and_fails_after_response_headers_takes_a_token_for_each_failure(
    monkeypatch, autojump_clock
):
    rules = {"maxTokens": 10, "tokenRatio": 1}
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(rules, retryPolicy=RETRY)) as channel:
        everywhere(mesh, Failing(2, headers_from=2))
        with pytest.raises(RpcError):
            await method(channel, PATH)(b"x")
        assert channel._state.throttle.tokens == 8


async def test_a_stream_over_the_replay_buffer_takes_one_token_when_it_fails(monkeypatch, autojump_clock):
    rules = {"maxTokens": 4, "tokenRatio": 1}
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(rules, retryPolicy=RETRY)) as channel:
        handler = everywhere(mesh, Failing(1, after=5))
        async with bidi(channel, PATH).open() as call:
            with pytest.raises(RpcError):
                for _ in range(5):
                    await call.send(b"x" * 100_000)
                await call.receive()
        assert (len(handler.attempts), channel._state.throttle.tokens) == (1, 3)


async def test_a_pushback_of_never_takes_a_token_for_any_status(monkeypatch, autojump_clock):
    rules = {"maxTokens": 4, "tokenRatio": 1}
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(rules, retryPolicy=RETRY)) as channel:
        everywhere(mesh, Failing(1, StatusCode.ABORTED, [("grpc-retry-pushback-ms", "-1")]))
        with pytest.raises(RpcError):
            await method(channel, PATH)(b"x")
        assert channel._state.throttle.tokens == 3


async def test_wait_for_ready_of_a_method_config_is_overridden_by_the_caller(monkeypatch, autojump_clock):
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(waitForReady=True)) as channel:
        mesh.network.refuse(mesh.hosts[0])
        with pytest.raises(RpcError) as waited:
            await method(channel, PATH)(b"x", timeout=5)
        assert waited.value.status.code is StatusCode.DEADLINE_EXCEEDED
        with pytest.raises(RpcError) as failed:
            await method(channel, PATH)(b"x", timeout=5, wait_for_ready=False)
        assert failed.value.status.code is StatusCode.UNAVAILABLE


async def test_the_smaller_of_two_limits_on_a_reply_applies(monkeypatch, autojump_clock):
    limit = for_all(maxResponseMessageBytes=10)
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, limit, max_receive_size=100) as channel:
        everywhere(mesh, Failing(0))
        assert await method(channel, PATH)(b"x" * 10) == b"x" * 10
        with pytest.raises(RpcError, match="message of 11 bytes is larger than the limit of 10") as caught:
            await method(channel, PATH)(b"x" * 11)
        assert caught.value.status.code is StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("code", ["CANCELLED", "RESOURCE_EXHAUSTED"])
async def test_a_call_whose_message_is_too_large_is_not_retried(monkeypatch, nursery, autojump_clock, code):
    retry = {**RETRY, "retryableStatusCodes": [code]}
    fields = {"retryPolicy": retry, "maxRequestMessageBytes": 10}
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(**fields)) as channel:
        handler = everywhere(mesh, Failing(0))
        async with bidi(channel, PATH).open() as call:
            nursery.start_soon(drain, call)
            await call.send(b"small")
            with pytest.raises(RpcError):
                await call.send(b"much too large")
            await trio.sleep(100)
        assert len(handler.attempts) == 1


async def drain(call):
    with contextlib.suppress(RpcError):
        while await call.receive() is not None:
            pass
