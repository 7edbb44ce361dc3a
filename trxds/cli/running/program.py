"""The state stream of a running program, read by HTTP/1.1 over a unix socket or a port, one line for each message."""

from __future__ import annotations

import errno
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import h11
import trio

from trxds.admin.state_stream.changes import apply
from trxds.admin.state_stream.messages import State
from trxds.core.json_parse import parse_json
from trxds.core.metadata import as_text
from trxds.transport.certificates import CertificateFiles, client_context
from trxds.transport.connect import TcpNetwork, connect_error, connect_reason
from trxds.transport.tls import certificate_doubt, server_name_of, tls_cause, tls_stream, verify_remedy
from trxds.transport.transport_credentials import Tls

from .access import Access

_TIMEOUT = 5.0  # seconds for a connection and the head of the answer


def after(state: State, message: Mapping[str, Any]) -> State:
    """Return the state after this message."""
    new: State = message["snapshot"] if "snapshot" in message else apply(state, message["changes"])
    return new


def is_address(text: str) -> bool:
    """Return whether the text is an address: a unix socket, or a host and a port."""
    host, _, port = text.rpartition(":")
    if text.startswith("unix:"):
        return len(text) > len("unix:")
    return bool(host) and "/" not in host and port.isdecimal() and len(port) <= 5 and int(port) <= 65535


class UnreachableError(Exception):
    """The program could not be reached; the message says what to check."""


@dataclass(frozen=True, slots=True)
class Program:
    """A running program. `address` is the one that it gave as `admin`."""

    address: str
    access: Access = field(default_factory=Access)

    @asynccontextmanager
    async def ask(
        self, sections: Sequence[str] = (), events: Sequence[str] = (), **more: str
    ) -> AsyncIterator[HttpResponse]:
        """Open the state stream of these sections and events, for as long as the block lasts.

        Raises `UnreachableError`.
        """
        query = urlencode({"sections": ",".join(sections), "events": ",".join(events), **more}, safe=",")
        async with self._answer(f"/state?{query}") as answer:
            yield answer

    async def explain(self, channel: str, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, Any]:
        """Return where a call of the program would go: an explanation's data, and its lines as `text`.

        Raises `UnreachableError`.
        """
        pairs = json.dumps([(key, as_text(value)) for key, value in metadata])
        query = urlencode({"channel": channel, "method": method, "metadata": pairs})
        async with self._answer(f"/explain?{query}") as answer:
            async for reply in answer:
                return reply
        raise UnreachableError(f"{self.address}: the program has ended, or closed its channel")

    @contextmanager
    def checking_answer(self) -> Iterator[None]:
        """Raise `UnreachableError` if the block meets an answer without something that this version reads."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"
            remedy = "does the program have another version of trxds? Use the `trxds` command of its environment"
            raise UnreachableError(f"{self.address}: the answer cannot be shown ({reason}); {remedy}") from error

    @asynccontextmanager
    async def _answer(self, target: str) -> AsyncIterator[HttpResponse]:
        async with await self.connect() as stream:
            answer = HttpResponse(stream, self.address)
            try:
                with trio.fail_after(_TIMEOUT):
                    await answer.begin(target, self.access)
            except trio.TooSlowError:
                raise UnreachableError(
                    f"{self.address}: no answer within {_TIMEOUT:g} s; is the program busy?"
                ) from None
            except (h11.ProtocolError, UnreachableError) as error:
                raise UnreachableError(f"{self.address}: {error}") from error
            yield answer

    async def connect(self) -> trio.abc.Stream:
        """Return a connection to the program's admin surface. Raises `UnreachableError`."""
        try:
            # Before the connection, which would be useless without it; the files may have gone since `live` began.
            context = None if self.access.tls is None else _tls_context(self.access.tls)
        except OSError as error:
            raise UnreachableError(f"{self.address}: {error}") from error
        try:
            with trio.fail_after(_TIMEOUT):
                transport = await TcpNetwork().connect(self.address)
                return transport if context is None else await self._encrypted(transport, context)
        except trio.TooSlowError:
            raise UnreachableError(
                f"{self.address}: no connection within {_TIMEOUT:g} s; {_remedy(self.address, None)}"
            ) from None
        except OSError as error:
            cause = connect_error(error)
            text = f"{connect_reason(cause)}; {_remedy(self.address, cause)}"
            raise UnreachableError(f"{self.address}: {text}") from error

    async def _encrypted(self, transport: trio.abc.Stream, context: ssl.SSLContext) -> trio.abc.Stream:
        written = self.access.tls.server_name if self.access.tls is not None else ""
        name = (written or server_name_of(self.address)).removesuffix(".")  # RFC 6066 §3: the SNI has no trailing dot
        try:
            stream = tls_stream(transport, context, name)
            await stream.do_handshake()
        except BaseException as error:
            await trio.aclose_forcefully(transport)
            match error:
                case ValueError():
                    reason = "no peer can have that name; give its name by --server-name"
                case trio.BrokenResourceError():
                    reason = tls_cause(error) + verify_remedy(error.__cause__, context)
                case _:
                    raise
            raise UnreachableError(f"{self.address}: TLS as {name!r}: {reason}") from error
        return stream


def _tls_context(tls: Tls) -> ssl.SSLContext:
    assert isinstance(tls.source, CertificateFiles)
    context = client_context(tls.source)
    context.set_alpn_protocols([])  # this is HTTP/1.1, and a server of gRPC alone would end the handshake for it
    return context


def access_doubt(stream: trio.abc.Stream) -> str:
    """Return the question, without its mark, about a peer that ended this connection without an answer."""
    if not isinstance(stream, trio.SSLStream):
        return "is --tls missing"
    return f"does it {certificate_doubt(stream.context)}"


def _remedy(address: str, error: BaseException | None) -> str:
    """Return what to do about an address to which there is no connection; the error is None for one that took long."""
    if isinstance(error, socket.gaierror):
        return "correct the name of the host"
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM):
        return "a program's socket is for its own user alone; run the command as that user"
    if not address.startswith(("unix:", "127.", "localhost:", "[::1]:")):
        return "does the program listen at that address? One at 127.0.0.1 of its machine is reached by `ssh -L`"
    return f'does the program run, with open_channel(..., admin="{address}")?'


def _message(line: bytes) -> dict[str, Any] | None:
    try:
        message = parse_json(line)
    except json.JSONDecodeError:
        return None
    return message if isinstance(message, dict) else None


class HttpResponse:
    """An async iterator of messages. It ends when the program ends."""

    def __init__(self, stream: trio.abc.Stream, address: str) -> None:
        self._stream = stream
        self._address = address
        self._http = h11.Connection(h11.CLIENT)
        self._lines = bytearray()
        self._lost: BaseException | None = None  # why the connection was lost
        self._was_answered = False

    async def begin(self, target: str, access: Access) -> None:
        token = [("authorization", f"Bearer {access.token}")] if access.token else []
        headers = [("host", "localhost"), *token]
        request = self._http.send(h11.Request(method="GET", target=target, headers=headers))
        try:
            await self._stream.send_all((request or b"") + (self._http.send(h11.EndOfMessage()) or b""))
        except trio.BrokenResourceError as error:
            self._lost = error  # the peer may have said why
        response = await self._event()
        if not isinstance(response, h11.Response):
            raise UnreachableError(self._no_http())
        if response.status_code == 401:
            raise UnreachableError(access.refusal)
        if response.status_code != 200:
            reason = await self.line() or b"refused"
            if reason.startswith(b"<"):  # a page of another server
                reason = b"refused"
            elsewhere = "; is it the address of admin=?" if response.status_code == 404 else ""
            raise UnreachableError(f"{reason.decode('utf-8', 'replace')} (HTTP {response.status_code}){elsewhere}")

    def _no_http(self) -> str:
        """Return what the end of the connection, or the first bytes, say of what listens there."""
        is_tls, doubt = isinstance(self._stream, trio.SSLStream), access_doubt(self._stream)
        if is_tls and not self._was_answered:
            reason = tls_cause(self._lost) if self._lost is not None else "the connection has ended without an answer"
            return f"{reason}; {doubt}?"
        return (
            f"what listens there speaks no HTTP/1.1; is it the address of admin={'' if is_tls else f', and {doubt}'}?"
        )

    def __aiter__(self) -> HttpResponse:
        return self

    async def __anext__(self) -> dict[str, Any]:
        line = await self.line()
        if line is None:
            raise StopAsyncIteration
        message = _message(line)
        if message is None:
            text = "what listens there answers with something else than the state stream; is it the address of admin=?"
            raise UnreachableError(f"{self._address}: {text}")
        return message

    async def line(self) -> bytes | None:
        """Return the next line; None at the end."""
        searched = 0
        while (end := self._lines.find(b"\n", searched)) < 0:
            searched = len(self._lines)
            event = await self._event()
            if not isinstance(event, h11.Data):
                return None
            self._lines += event.data
        line = bytes(self._lines[:end])
        del self._lines[: end + 1]
        return line

    async def _event(self) -> Any:
        """Return the next HTTP event; None if the connection was lost, or what came is no HTTP/1.1."""
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                data = bytes(await self._stream.receive_some(65536))
                self._was_answered = self._was_answered or bool(data)
                self._http.receive_data(data)
        except trio.BrokenResourceError as error:
            self._lost = self._lost or error
            return None
        except h11.RemoteProtocolError:
            return None
        return event
