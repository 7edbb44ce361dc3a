"""Metadata, cookies and tokens are on the wire and nowhere else, whatever is wrong with them."""

from __future__ import annotations

import base64
import functools
import json
import logging
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
from support.mesh import METHOD, ask, bidi, method
from support.secrecy import FORMS, SECRET, Said, everything_logged, note_reprs, overheard
from support.sessions import in_cookie, listen, session_filter
from support.tokens import token_of

import trxds
import trxds.sync
from trxds import CallCredentials, RpcError
from trxds.core.observe import AttemptObserver, CallObserver, Observer
from trxds.testing import serve, unary
from trxds.transport import connection
from trxds.transport.h2_engine import H2LibraryEngine
from trxds.xds.authorization import read_token
from trxds.xds.bootstrap import parse

pytestmark = pytest.mark.slow

B64 = base64.b64encode(SECRET.encode()).decode()
COOKIES = {
    "a cookie of another program": f"session={SECRET}",
    "one in base64": f"session={B64}",
    "one that is read as hosts": f"session={base64.b64encode(f'{SECRET},{SECRET};{SECRET}'.encode()).decode()}",
    "one that is read as a cluster": f"session={base64.b64encode(f';{SECRET}'.encode()).decode()}",
    "one with a zone": f"session={base64.b64encode(f'[fe80::1%{SECRET}]:1'.encode()).decode()}",
    "one that is too large": f"session={B64 * 1000}",
    "several": f"a={SECRET}; session={SECRET}; {SECRET}",
}
GOOD = {
    "a token": [("authorization", f"Bearer {SECRET}")],
    "several": [("authorization", f"Bearer {SECRET}"), ("authorization", SECRET)],
    "bytes": [("token-bin", SECRET.encode())],
    "a long one": [("authorization", f"Bearer {SECRET * 200}")],
    "one for the fault filter": [("x-envoy-fault-abort-grpc-request", SECRET)],
    **{f"cookie: {name}": [("cookie", cookie)] for name, cookie in COOKIES.items()},
}
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


def echo(mesh, answer=None):
    """All hosts answer so; the calls they have had."""

    async def echoing(call):
        async for message in call:
            await call.send(message)

    for server in mesh.servers.values():
        server.fallback = answer or echoing
    return [call for server in mesh.servers.values() for call in server.calls]


def carried(mesh):
    """Whether a host has had the secret."""
    calls = [call for server in mesh.servers.values() for call in server.calls]
    values = [value if isinstance(value, str) else value.decode() for call in calls for _, value in call.metadata]
    return any(form in value.lower() for form in FORMS for value in values)


def leaks(said):
    """The first few, short enough to read."""
    return [(where, text[:600]) for where, text in said.leaks[:3]]


@pytest.fixture(params=["the lean engine", "h2"])
def either_engine(request, monkeypatch):
    if request.param == "h2":
        monkeypatch.setattr(connection, "_engine", lambda options: H2LibraryEngine(client=True, options=options))


async def tried(said, call, *args, **more):
    """One call; its reply and its error are looked at."""
    try:
        said.note("reply", await call(*args, **more))
    except (RpcError, ValueError, TypeError) as error:
        said.error(error)


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


# -- what hosts send


ANSWERS = {
    "metadata": [("token", SECRET), ("token-bin", SECRET.encode())],
    "a cookie": [("set-cookie", f"id={SECRET}; Path=/")],
    "a session cookie": [("set-cookie", f"session={SECRET}; Path=/")],
    "a cookie of more than is kept": [("set-cookie", f"id={SECRET * 1000}")],
    "a pushback": [("grpc-retry-pushback-ms", SECRET)],
    "a load report": [("endpoint-load-metrics-bin", SECRET.encode())],
}


@pytest.mark.parametrize("code", [trxds.StatusCode.OK, trxds.StatusCode.UNAVAILABLE], ids=lambda code: code.name)
async def test_metadata_of_a_host_is_shown_nowhere(code, either_engine, autojump_clock):
    async def answer(call):
        await call.send_initial_metadata(pairs)
        call.set_trailing_metadata(pairs)
        if code is not trxds.StatusCode.OK:
            call.abort(code, "told to", SECRET.encode())
        await call.send(b"")

    async with overheard() as (mesh, channel, said):
        echo(mesh, answer)
        for pairs in ANSWERS.values():  # noqa: B007 - the host answers with them
            async with channel.session() as session:
                for _ in range(2):
                    await tried(said, method(session), b"")
                async with method(session).open(b"") as call:
                    said.note("headers", await call.wait_initial_metadata())
                    await tried(said, call.receive)
                    said.note("call", f"{call!r} {call.status!r} {call.trailing_metadata!r} {session!r}")
        note_reprs(said, session, call)
    assert leaks(said) == []


RAW = {
    "a name in capitals": [(b"X " + SECRET.encode(), b"1")],
    "a name with a line end": [(b"authorization: " + SECRET.encode() + b"\r\n", b"1")],
    "a value with a line end": [(b"token", SECRET.encode() + b"\r\nx: y")],
    "a value beyond ASCII": [(b"token", SECRET.encode() + b"\xff")],
    "a -bin that is no base64": [(b"token-bin", b"?" + SECRET.encode())],
    "a content-type": [(b"content-type", SECRET.encode())],
    "a compression": [(b"grpc-encoding", SECRET.encode())],
    "a grpc-status": [(b"grpc-status", SECRET.encode())],
    "details that are no base64": [(b"grpc-status", b"2"), (b"grpc-status-details-bin", b"?" + SECRET.encode())],
    "a cookie with a NUL": [(b"set-cookie", b"id=" + SECRET.encode() + b"\0")],
    "an HTTP status": [(b":status", SECRET.encode())],
    "headers of more than is taken": [(b"token", SECRET.encode() * 500)],
}


@pytest.mark.parametrize("first", [True, False], ids=["headers", "trailers"])
async def test_invalid_metadata_of_a_host_is_shown_nowhere(first, either_engine, autojump_clock):
    usual = [(b":status", b"200"), (b"content-type", b"application/grpc")]

    async def answer(call):
        opening = [each for each in usual if each[0] not in [name for name, _ in fields]]
        call._headers_sent = True
        if first:
            call._connection.send_headers(
                call.id, [*(each for each in fields if each[0] == b":status"), *opening, *fields]
            )
        else:
            call._connection.send_headers(call.id, usual)
        await call.send(b"")
        if not first:
            call.sending = False
            call._connection.send_headers(call.id, fields, end=True)

    async with overheard(max_metadata_size=8_000) as (mesh, channel, said):
        echo(mesh, answer)
        for fields in RAW.values():  # noqa: B007 - the host answers with them
            async with channel.session() as session:
                for _ in range(2):
                    await tried(said, method(session), b"", timeout=5)
                said.note("session", session)
    assert leaks(said) == []


# -- tokens of sessions


async def test_a_token_of_a_session_is_shown_nowhere(autojump_clock):
    key = SECRET.encode()
    async with overheard() as (_, channel, said), channel.sessions(max=3, idle=60) as pool:
        async with channel.session() as first:
            await ask(first)
            token, signed = first.export(), first.export(key=key)
        async with channel.session(token) as session, pool.session(SECRET, signed, key=key) as pooled:
            for each in (first, session, pooled):
                said.note("session", f"{each!r} {each.hosts!r} {each.host!r}")
            await ask(session)
            await ask(pooled)
            said.note("explained", str(await channel.explain(METHOD)))
            said.note("pool", pool)
            note_reprs(said, session, pooled, pool)
            await trio.sleep(2)
            ((_, cookie),) = session._session.cookies.metadata._jar.live(trio.current_time())
    own = (token, signed, token.split(".")[1], signed.split(".")[2], cookie)
    assert [(where, text[:600]) for where, text in said.texts if any(each in text for each in own)][:3] == []
    assert leaks(said) == []


FOREIGN_TOKENS = {
    "a secret": SECRET,
    "with a line end": f"{SECRET}\n",
    "of a version": f"trxds7.{SECRET}",
    "of no content": f"trxds1.{SECRET}",
    "of base64": f"trxds1.{B64.rstrip('=')}.{B64.rstrip('=')}",
    "too long": SECRET * 1000,
    **{
        f"with a secret {where}": token_of(**{kind: rows})
        for where, kind, rows in [
            ("name", "cookies", [[f"{SECRET}=", "/", "x", None]]),
            ("path", "cookies", [["a", f"{SECRET};", "x", None]]),
            ("value", "cookies", [["a", "/", SECRET, None]]),
            ("header", "headers", [[SECRET, SECRET]]),
        ]
    },
}


@pytest.mark.parametrize("token", FOREIGN_TOKENS.values(), ids=FOREIGN_TOKENS)
async def test_a_token_that_is_refused_is_shown_nowhere(token, autojump_clock):
    async with overheard() as (_, channel, said), channel.sessions(max=1) as pool:
        for block in (channel.session(token), channel.session(token, key=SECRET.encode()), pool.session(1, token)):
            with pytest.raises(trxds.SessionTokenError) as refused:
                async with block:
                    pass
            said.error(refused.value)
    assert leaks(said) == []


# -- tokens for the control plane


TOKENS = {
    "none": SECRET,
    "two parts": f"{SECRET}.{SECRET}",
    "no claims": f"e30.{B64}.{SECRET}",
    "no exp": f"e30.e30.{SECRET}",
    "a line end in the middle": f"e30.eyJleHAi\nOjE5MDAwMDAwMDB9.{SECRET}",
    "a NUL": f"{SECRET}\0.eyJleHAiOjE5MDAwMDAwMDB9.x",
    "beyond ASCII": f"{SECRET}ü",
    "nothing": "",
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_an_invalid_token_of_the_control_plane_is_not_shown(token, tmp_path):
    path = tmp_path / "token"
    path.write_text(token, newline="")
    with pytest.raises(OSError, match=r"jwt_token_file .*token") as refused:
        read_token(str(path))
    said = Said()
    said.error(refused.value)
    assert leaks(said) == []


@pytest.mark.parametrize("where", ["call_creds", "channel_creds"])
@pytest.mark.parametrize(
    "text", [f"eyJhbGciOiJSUzI1NiJ9.{B64}.{SECRET}", f"-----BEGIN PRIVATE KEY-----\n{B64}\n-----END PRIVATE KEY-----"]
)
def test_a_bootstrap_with_the_secret_in_place_of_its_path_is_refused_without_it(where, text):
    server = {"server_uri": "plane:443", "channel_creds": [{"type": "tls", "config": {}}]}
    if where == "call_creds":
        server["call_creds"] = [{"type": "jwt_token_file", "config": {"jwt_token_file": text}}]
    else:
        files = {"certificate_file": "c.pem", "private_key_file": text, "refresh_interval": "1s"}
        server["channel_creds"] = [{"type": "tls", "config": files}]
    with pytest.raises(trxds.BootstrapError, match="write the path") as refused:
        parse(json.dumps({"xds_servers": [server], "node": {"id": "a"}}))
    said = Said()
    said.error(refused.value)
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


# -- the check itself


async def test_the_log_of_decisions_is_among_what_is_searched(autojump_clock):
    async with overheard() as (mesh, channel, said), channel.session() as session:
        for cookie in COOKIES.values():
            await tried(said, ask, channel, metadata=[("cookie", cookie)])
        await ask(session)
        mesh.endpoints("cart", mesh.hosts[:1])
        await trio.sleep(1)
        await ask(session)
    lines = [text for where, text in said.texts if where == "log" and text.startswith("trxds.")]
    for begin in (
        "trxds.transport INFO",
        "trxds.resolver INFO",
        "trxds.client DEBUG",
        "trxds.resolver DEBUG",
        "trxds.lb DEBUG",
        "trxds.session_affinity DEBUG",
        "trxds.xds DEBUG",
    ):
        assert any(line.startswith(f"{begin} xds:///shop: ") for line in lines), begin
    assert leaks(said) == []


async def test_the_hpack_log_has_no_header_values(autojump_clock):
    async with overheard() as (_, channel, said):
        await ask(channel, metadata=GOOD["a token"])
    lines = [text for where, text in said.texts if where == "log" and text.startswith("hpack.")]
    assert len(lines) > 20 and all("/shop.Cart/Add" not in line for line in lines)


def test_the_hpack_log_of_other_libraries_is_unchanged():
    said = Said()
    with everything_logged(said):
        exec("from hpack import Encoder; Encoder().encode([('x', 'their own')])", {"__name__": "their_program"})
    assert any("their own" in text for _, text in said.texts)


@pytest.mark.parametrize(
    "text", [SECRET, SECRET.upper(), *(base64.b64encode(b"y" * n + SECRET.encode()).decode() for n in range(4))]
)
def test_the_search_for_secrets_finds_a_leak(text):
    said = Said()
    with everything_logged(said):
        logging.getLogger("anybody").debug("it is %s", text)
    assert [where for where, _ in said.leaks] == ["log"]
