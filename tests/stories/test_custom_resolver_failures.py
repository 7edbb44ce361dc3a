"""A program's own resolver fails: calls have its reason, the last good update stays, and it is started again."""

import logging
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio
from support.mesh import ask, spread
from support.resolvers import Feed, failure, resolved, settled, warnings_of

import trxds
from trxds import RpcError, StatusCode
from trxds.resolvers import ResolverUpdate


async def test_a_resolver_that_raises_first_fails_calls_with_its_message(autojump_clock):
    async with resolved(Feed(OSError("registry is down"))) as (_, channel):
        status = await failure(channel)
    assert status.code is StatusCode.UNAVAILABLE
    assert "target my:///cart cannot be resolved: OSError: registry is down" in status.message


async def test_the_status_of_an_rpc_of_a_resolver_never_becomes_that_of_calls(autojump_clock):
    refused = RpcError(trxds.Status(StatusCode.PERMISSION_DENIED, "no token"))
    async with resolved(Feed(refused)) as (_, channel):
        status = await failure(channel)
    assert status.code is StatusCode.UNAVAILABLE
    assert "PERMISSION_DENIED: no token" in status.message


async def test_after_an_exception_the_last_good_update_stays_in_force(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(*mesh.hosts[:2])
        await ask(channel)
        feed.push(OSError("registry is down"))
        await trio.sleep(30)
        assert await spread(channel, 4) == dict.fromkeys(mesh.hosts[:2], 2)


async def test_a_resolver_that_raises_is_started_again_after_a_backoff(autojump_clock):
    async def failing(args):
        starts.append(trio.current_time())
        raise OSError("registry is down")
        yield

    starts: list[float] = []
    async with resolved(failing):
        await trio.sleep(30)
    delays = [after - before for before, after in pairwise(starts)]
    assert 0.8 <= delays[0] <= 1.2
    assert 1.28 <= delays[1] <= 1.92
    assert len(starts) <= 9


async def test_a_new_start_that_yields_is_in_force_and_ends_the_backoff(autojump_clock):
    feed = Feed(OSError("registry is down"), OSError("registry is down"))
    async with resolved(feed) as (mesh, channel):
        await trio.sleep(10)
        feed.push(mesh.hosts[0])
        assert await ask(channel, wait_for_ready=True) == mesh.hosts[0]
        feed.push(OSError("down again"))
        feed.push(mesh.hosts[1])
        await trio.sleep(2)
        assert await spread(channel, 2) == {mesh.hosts[1]: 2}


async def test_the_error_of_a_nursery_inside_a_resolver_is_named_and_not_its_group(autojump_clock):
    @asynccontextmanager
    async def watching(args):
        async with trio.open_nursery() as nursery:
            _, receive = trio.open_memory_channel(0)
            nursery.start_soon(broken)
            yield receive

    async def broken():
        raise OSError("stream broke")

    async with resolved(watching) as (_, channel):
        status = await failure(channel)
    assert "cannot be resolved: OSError: stream broke" in status.message


async def test_a_bug_of_a_resolver_is_logged_once_with_its_traceback(autojump_clock, caplog):
    async def buggy(args):
        raise KeyError("name")
        yield

    async with resolved(buggy):
        await trio.sleep(30)
    raised = [record for record in caplog.records if record.exc_info]
    assert [record.message for record in raised] == ["my:///cart: its resolver raised"]
    assert all(record.name == "trxds.resolver" and record.levelno == logging.WARNING for record in raised)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda args: None, "the resolver returned None, which is no async iterator"),
        (lambda args: no_generator(), "the resolver is an `async def` without `yield`"),
    ],
)
async def test_a_function_that_returns_no_iterator_fails_calls_with_the_remedy(autojump_clock, wrong, text):
    async with resolved(wrong) as (_, channel):
        assert text in (await failure(channel)).message


async def no_generator():
    return ResolverUpdate([])


async def test_another_value_than_an_update_fails_calls_with_the_remedy(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (_, channel):
        feed.push(["10.0.0.1:443"])
        assert "yield a trxds.resolvers.ResolverUpdate" in (await failure(channel)).message


async def test_a_present_failure_is_among_the_warnings_of_explain(autojump_clock):
    feed = Feed()
    async with resolved(feed) as (mesh, channel):
        feed.push(mesh.hosts[0])
        await ask(channel)
        feed.push(OSError("registry is down"))
        await settled()
        assert "registry is down" in warnings_of(channel)[0]
        feed.push(mesh.hosts[0])
        await trio.sleep(3)
        assert not warnings_of(channel)
