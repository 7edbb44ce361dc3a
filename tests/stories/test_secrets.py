"""Metadata and cookies that a program sends are on the wire and nowhere else, whatever is wrong with them."""

from __future__ import annotations

import functools
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
from support.mesh import METHOD, ask, bidi
from support.secrecy import FORMS, SECRET, Said, everything_logged, note_reprs, overheard
from support.secret_metadata import COOKIES, GOOD, leaks, tried
from support.sessions import in_cookie, listen, session_filter

import trxds
import trxds.sync
from trxds import CallCredentials, RpcError
from trxds.core.observe import AttemptObserver, CallObserver, Observer
from trxds.testing import serve, unary

pytestmark = pytest.mark.slow

BAD = {
    "a line end": [("authorization", f"Bearer {SECRET}\n")],
    "a line end as Windows has it": [("authorization", f"Bearer {SECRET}\r\n")],
    "a line end in the middle": [("authorization", f"Bearer\n{SECRET}")],
    "a NUL": [("authorization", f"{SECRET}\0")],
    "a character beyond ASCII": [("authorization", f"{SECRET}ü")],
    "a lone surrogate": [("authorization", f"{SECRET}\ud800")],
    "bytes without -bin": [("authorization", SECRET.encode())],
    "-bin without bytes": [("authorization-bin", SECRET)],
    "another type": [("authorization", [SECRET])],
    "key and value confused": [(f"Bearer {SECRET}", "authorization")],
    "a pair of three": [("authorization", SECRET, "x")],
    "no pair": [f"authorization: {SECRET}"],
    "a dict": {"authorization": SECRET},
    "a text": SECRET,
    "a cookie with a line end": [("cookie", f"session={SECRET}\n")],
}
TOO_LARGE = [("authorization", SECRET * 4_000)]


def carried(mesh):
    """Whether a host has had the secret."""
    calls = [call for server in mesh.servers.values() for call in server.calls]
    values = [value if isinstance(value, str) else value.decode() for call in calls for _, value in call.metadata]
    return any(form in value.lower() for form in FORMS for value in values)


# -- what the program sends


async def test_metadata_that_is_sent_is_shown_nowhere(either_engine, autojump_clock):
    async with overheard() as (mesh, channel, said):
        for pairs in GOOD.values():
            for server in mesh.servers.values():
                server.calls.clear()
            await tried(said, ask, channel, metadata=pairs)
            assert carried(mesh)
            async with bidi(channel).open(metadata=pairs) as call, channel.session() as session:
                await call.send(b"x")
                await call.receive()
                await tried(said, ask, session, metadata=pairs)
                said.note("call", f"{call!r} {session!r}")
            told = await channel.explain(METHOD, pairs)
            said.note("explanation", f"{told} {told!r} {told.as_data()}")
    assert leaks(said) == []


async def test_metadata_that_cannot_be_sent_is_shown_nowhere(autojump_clock):
    async with overheard() as (_, channel, said):
        for pairs in BAD.values():
            await tried(said, ask, channel, metadata=pairs)
            await tried(said, channel.explain, METHOD, pairs)
            with pytest.raises((ValueError, TypeError)) as refused:
                async with bidi(channel).open(metadata=pairs):
                    pass
            said.error(refused.value)
            async with channel.session() as session:
                await tried(said, ask, session, metadata=pairs)
    assert leaks(said) == []


async def test_metadata_of_call_credentials_is_shown_nowhere(autojump_clock):
    async def late(token, context):
        await trio.sleep(1)
        return token

    given = []
    credentials = CallCredentials(functools.partial(late, given), allow_insecure=True)
    async with overheard(call_credentials=credentials) as (_, channel, said):
        said.note("credentials", credentials)
        for pairs in (*GOOD.values(), *BAD.values(), TOO_LARGE):
            given[:] = pairs
            await tried(said, ask, channel)
            own = CallCredentials(functools.partial(lambda its, context: its, pairs), allow_insecure=True)
            await tried(said, ask, channel, credentials=own)
        await tried(said, ask, channel, credentials=SECRET)
        with pytest.raises(TypeError) as refused:
            async with trxds.open_channel("dns:///shop", call_credentials=SECRET):
                pass
        said.error(refused.value)
    assert leaks(said) == []


async def test_metadata_of_an_interceptor_is_shown_nowhere(autojump_clock):
    seen = []

    @asynccontextmanager
    async def adds(call, next):
        changed = replace(call, metadata=[*call.metadata, *pairs])
        seen.append(changed)
        async with next(changed) as stream:
            yield stream

    async with overheard(interceptors=[adds]) as (_, channel, said):
        for pairs in (*GOOD.values(), *BAD.values()):  # noqa: B007 - the interceptor adds them
            await tried(said, ask, channel)
        said.note("details", seen)
    assert leaks(said) == []


async def test_metadata_that_the_host_finds_too_large_is_shown_nowhere(autojump_clock):
    async with overheard() as (_, channel, said):
        await ask(channel)
        await tried(said, ask, channel, metadata=TOO_LARGE)
        assert any("send less metadata" in text for _, text in said.texts)
    assert leaks(said) == []


async def test_metadata_of_an_observer_is_shown_nowhere(autojump_clock):
    class Attempt(AttemptObserver):
        def headers(self):
            return [("trace", SECRET), ("state", f"{SECRET}\n")]

    class Call(CallObserver):
        def attempt(self, previous, transparent):
            return Attempt()

    class Watcher(Observer):
        def call(self, call):
            return Call()

    async with overheard() as (_, channel, said):
        with channel.observed_by(Watcher()):
            await ask(channel)
        assert any("a line end at position" in text for where, text in said.texts if where == "log")
    assert leaks(said) == []


async def test_a_routes_header_is_explained_without_its_value(autojump_clock):
    async with overheard() as (mesh, channel, said):
        wanted = [{"name": "authorization", "prefix_match": "Basic"}]
        mesh.route({"match": {"prefix": "", "headers": wanted}, "route": {"cluster": "cart"}})
        await trio.sleep(1)
        pairs = [("authorization", f"Bearer {SECRET}")]
        await tried(said, ask, channel, metadata=pairs)
        told = await channel.explain(METHOD, pairs)
        said.note("explanation", f"{told} {told!r} {told.as_data()}")
        assert "header authorization has" in str(told)
    assert leaks(said) == []


async def test_a_strict_session_that_finds_no_host_is_refused_without_its_cookie(autojump_clock):
    async with overheard() as (mesh, channel, said):
        listen(mesh, session_filter(state=in_cookie(), strict=True))
        await trio.sleep(1)
        for cookie in COOKIES.values():
            await tried(said, ask, channel, metadata=[("cookie", cookie)])
            told = await channel.explain(METHOD, [("cookie", cookie)])
            said.note("explanation", f"{told} {told!r} {told.as_data()}")
    assert leaks(said) == []


# -- threads


def test_metadata_in_threads_is_shown_nowhere():
    said, done = Said(), []

    async def answer(request, call):
        return b""

    async def serving(task_status):
        async with serve({METHOD: unary(answer)}) as server:
            task_status.started(server.address)
            await trio.sleep_forever()

    def call(address):
        with trxds.sync.open_channel(f"ipv4:{address}") as channel:
            once = channel.method(METHOD)
            for pairs in (*GOOD.values(), *BAD.values()):
                try:
                    said.note("future", once.future(b"", metadata=pairs))
                    once(b"", metadata=pairs)
                except (ValueError, TypeError, RpcError) as error:
                    said.error(error)
            note_reprs(said, channel, once)
            done.append(channel)

    async def main():
        async with trio.open_nursery() as nursery:
            await trio.to_thread.run_sync(call, await nursery.start(serving))
            nursery.cancel_scope.cancel()

    with everything_logged(said):
        trio.run(main)
    assert done and leaks(said) == []
