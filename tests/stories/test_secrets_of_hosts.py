"""Metadata that a host sends is for the program and shown nowhere else, whatever is wrong with it."""

from __future__ import annotations

import pytest
from support.mesh import method
from support.secrecy import SECRET, note_reprs, overheard
from support.secret_metadata import leaks, tried

import trxds
import trxds.sync

pytestmark = pytest.mark.slow


def echo(mesh, answer=None):
    """All hosts answer so; the calls they have had."""

    async def echoing(call):
        async for message in call:
            await call.send(message)

    for server in mesh.servers.values():
        server.fallback = answer or echoing
    return [call for server in mesh.servers.values() for call in server.calls]


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
