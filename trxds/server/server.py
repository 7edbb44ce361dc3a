"""A gRPC server for all four kinds of call, with controls for the faults that tests need.

It is built on the client's own transport, so it proves nothing about the wire format by itself; `tests/peers` does,
with grpcio at the other end.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import trio
from google.protobuf.descriptor import ServiceDescriptor
from msgspec import structs

from trxds.core.authority import join_address
from trxds.core.background_nursery import open_background_nursery
from trxds.core.error_text import error_in, leaves
from trxds.core.event_loop import check_in_trio
from trxds.core.metadata import Headers
from trxds.core.status import StatusCode
from trxds.transport.connect import split_address
from trxds.transport.events import ErrorCode
from trxds.transport.options import WireOptions
from trxds.transport.request import MAX_RECEIVE_SIZE

from .handlers import handlers_of
from .pending_connections import PendingConnection, PendingConnections
from .reply_type import ReplyTypeError
from .server_arguments import check_handlers, check_limits, check_options
from .server_call import Call, Handler
from .server_connection import ServerConnection
from .server_limits import ServerLimits
from .unix import unix_listener

MAX_CONCURRENT_STREAMS = 100
"""The limit that RFC 9113 §6.5.2 recommends not to go below, and most servers set."""

MAX_FRAME = 16 * 1024
"""HTTP/2's default, as in grpc-go's and grpc-java's servers: larger frames delay other streams of the client."""

DEFAULT_LIMITS = ServerLimits()


class ServerListener(Protocol):
    """A place to listen at other than a socket of the operating system."""

    def listen(self, address: str) -> trio.abc.Listener[trio.abc.Stream]:
        """Return a listener at `address`; `OSError` if it is in use."""


class Server:
    """A gRPC server. Run it by `serve`, or by `await nursery.start(server.run)`.

    `connections` are the open ones; `calls` are all calls so far, in order.

    Args:
        handlers: Handlers by path (`/pkg.Service/Method`). They may be changed at any time.
        fallback: It takes all other calls, which otherwise end UNIMPLEMENTED.
        address: `127.0.0.1` and a free port by default; the server's `address` has the real one.
        network: A `MemoryNetwork` in place of sockets.
        max_concurrent_streams: A client may have so many streams open on a connection, and as many handlers run for it;
            None is no limit.
        max_receive_size: The largest message, in bytes; 4 MiB by default.
        options: Settings of the wire, for tests of clients.
        limits: What one client may cost the others.
        tls: An SSL context for servers: clients must speak TLS. gRPC clients need "h2" among its ALPN protocols.
        remember_calls: With False `calls` stays empty.

    Raises:
        TypeError: A handler is no function of a call, or an option is of another type.
        ValueError: A handler's path does not begin with a slash, or an option is no number in its range.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler] | None = None,
        *,
        fallback: Handler | None = None,
        address: str = "127.0.0.1:0",
        network: ServerListener | None = None,
        max_concurrent_streams: int | None = MAX_CONCURRENT_STREAMS,
        max_receive_size: int = MAX_RECEIVE_SIZE,
        options: WireOptions | None = None,
        limits: ServerLimits = DEFAULT_LIMITS,
        tls: ssl.SSLContext | None = None,
        remember_calls: bool = True,
    ) -> None:
        check_options(handlers, address, network, tls)
        check_limits(limits, max_receive_size, max_concurrent_streams)
        self.handlers = dict(handlers or {})
        check_handlers(self.handlers, fallback)
        self.fallback = fallback
        self.address = address
        self.max_receive_size = max_receive_size
        self.tls = tls
        options = options or WireOptions(max_frame=MAX_FRAME)
        # Options that set the limit themselves keep it.
        if options.max_concurrent_streams is None:
            options = structs.replace(options, max_concurrent_streams=max_concurrent_streams)
        self.options = options
        self.connections: list[ServerConnection] = []
        self._record = CallRecord(remember_calls)
        self._network = network
        self._nursery: trio.Nursery | None = None
        self._listen_scope: trio.CancelScope | None = None
        self._stopped = trio.Event()  # set while the server does not listen
        self._stopped.set()
        self._client_numbers = itertools.count(1)
        self._pending = PendingConnections(limits)

    def __repr__(self) -> str:
        state = "listening" if self._listen_scope else "stopped"
        return f"<Server {self.address} {state}, {len(self.connections)} connections>"

    @property
    def calls(self) -> list[Call]:
        """All calls so far, in order; none with `remember_calls=False`."""
        return self._record.calls

    @property
    def reply_error(self) -> TypeError | None:
        """The first reply of a wrong type that a handler made; None if there was none. `serve` raises it at its end."""
        return self._record.reply_error

    def add_service(self, service: ServiceDescriptor, implementation: object) -> None:
        """Serve a protobuf service: each method of `implementation` gets parsed messages and the call.

        `async def Unary(self, request, call) -> reply`; streaming requests are an async iterator in
        place of the request, streaming replies are yielded. A method whose name is a Python keyword has an underscore
        at its end. Methods without a handler end UNIMPLEMENTED.

        `TypeError` if a function does not fit its method, if there is none for any method, or if one is a handler by
        its parameters and resembles a method that has none: its name is misspelled.
        """
        self.handlers.update(handlers_of(service, implementation))

    # -- its life

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; `address` is known once it has started. `OSError` if it cannot listen."""
        listener = await self._listener()
        try:
            async with trio.open_nursery() as self._nursery:
                await self._nursery.start(self._listen, listener)
                task_status.started()
                # `stop` ends only the listening, so that `restart` can begin it again.
                await trio.sleep_forever()
        finally:
            self._nursery = None

    async def restart(self) -> None:
        """Stop, and listen again at the same address."""
        if self._nursery is None:
            raise RuntimeError("the server is not running; use `async with serve(...)`")
        self.stop()
        # The old listener has to release the address first.
        await self._stopped.wait()
        await self._nursery.start(self._listen, await self._listener())

    def stop(self) -> None:
        """Stop listening and drop all connections, as if the process had died."""
        if self._listen_scope is not None:
            self._listen_scope.cancel()
        self._pending.drop_handshakes()
        self.drop_connections()

    def drop_connections(self) -> None:
        """Close all connections without GOAWAY."""
        for connection in tuple(self.connections):
            connection.drop()

    def goaway(self, code: int = ErrorCode.NO_ERROR, debug: bytes = b"") -> None:
        """Send GOAWAY on all connections; they close when their calls have ended."""
        for connection in tuple(self.connections):
            connection.goaway(code, debug)

    # -- listening

    async def _listen(self, listener: trio.abc.Listener[trio.abc.Stream], task_status: trio.TaskStatus[None]) -> None:
        assert self._nursery is not None
        self._stopped = trio.Event()
        try:
            with trio.CancelScope() as self._listen_scope:
                accept = partial(self._accept, self._listen_scope)
                async with listener:
                    task_status.started()
                    await trio.serve_listeners(accept, [listener], handler_nursery=self._nursery)
        finally:
            self._listen_scope = None
            self._stopped.set()

    async def _accept(self, listening: trio.CancelScope, transport: trio.abc.Stream) -> None:
        # `stop` has come since the connection was accepted, and could not find it.
        if listening.cancel_called:
            await trio.aclose_forcefully(transport)
        else:
            await self.serve_stream(transport)

    async def _listener(self) -> trio.abc.Listener[trio.abc.Stream]:
        if self._network is not None:
            return self._network.listen(self.address)
        try:
            if self.address.startswith("unix:"):
                return await unix_listener(self.address.removeprefix("unix:"))
            host, port = split_address(self.address)
            # A name such as localhost may have several addresses, and the server has one.
            listener, *others = await trio.open_tcp_listeners(port, host=host)
        except OSError as error:
            # `bind` and the look-up of a name do not say what they failed for.
            if error.errno is None:
                raise
            raise OSError(error.errno, f"{self.address}: {error.strerror or error}") from error
        for each in others:
            each.socket.close()
        # The system has chosen the port if it was 0, and `restart` has to use the same one.
        self.address = join_address(*listener.socket.getsockname()[:2])
        return listener

    async def serve_stream(
        self, transport: trio.abc.Stream, admits: Callable[[Headers], bool] = lambda headers: True
    ) -> None:
        """Serve one client, to its end, on a stream that the caller accepted.

        `limits` count the connection as one without a request, until `admits` returns true for a request's headers.
        """
        peer = self._client_name(transport)
        try:
            with self._pending.admit(peer, admits, tls=self.tls is not None) as pending:
                if self.tls is not None:
                    # Clients of HTTP/2 close without the alert that ends TLS, as those of HTTPS do.
                    transport = trio.SSLStream(transport, self.tls, server_side=True, https_compatible=True)
                    try:
                        await transport.do_handshake()
                    except trio.BrokenResourceError:
                        return
                    pending.on_handshake()
                await self._serve_connection(transport, pending)
        finally:
            await trio.aclose_forcefully(transport)

    async def _serve_connection(self, transport: trio.abc.Stream, pending: PendingConnection) -> None:
        async with trio.open_nursery() as nursery:

            def start(call: Call) -> None:
                self._record.add(call)
                nursery.start_soon(self._run_call, connection, call, name=f"server/call{call.path}")

            connection = pending.connection = ServerConnection(
                transport,
                peer=pending.peer,
                options=self.options,
                limits=self._pending.limits,
                max_receive_size=self.max_receive_size,
                start=start,
                on_preface=pending.on_preface,
                on_request=pending.on_request,
            )
            # Listed while it runs, so that `stop` and `goaway` find it.
            self.connections.append(connection)
            try:
                await connection.run()
            finally:
                self.connections.remove(connection)

    async def _run_call(self, connection: ServerConnection, call: Call) -> None:
        try:
            await self._record.run(call, self._handler(call.path))
        finally:
            connection.handlers.ended()

    def _client_name(self, transport: trio.abc.Stream) -> str:
        if isinstance(transport, trio.SocketStream):
            with contextlib.suppress(OSError):  # the client is gone
                name = transport.socket.getpeername()
                if isinstance(name, tuple):
                    return join_address(*name[:2])
                if name:  # a Unix client's path; most have none
                    return f"unix:{os.fsdecode(name)}"
        return f"client-{next(self._client_numbers)}"

    def _handler(self, path: str) -> Handler:
        return self.handlers.get(path) or self.fallback or _unimplemented


class CallRecord:
    """What a server remembers of its calls: the `calls` in their order, if it is to, and the first wrong reply.

    A test must not pass with a reply of a wrong type. Its caller sees a status only, and may have a fallback for it.
    """

    def __init__(self, remember_calls: bool) -> None:
        self.calls: list[Call] = []
        self.reply_error: ReplyTypeError | None = None
        self._remember_calls = remember_calls

    def add(self, call: Call) -> None:
        """Add a call that begins."""
        if self._remember_calls:
            self.calls.append(call)

    async def run(self, call: Call, handler: Handler) -> None:
        """Run a call to its end, and note the first reply of a wrong type."""

        async def noting_handler(call: Call) -> None:
            try:
                await handler(call)
            except Exception as error:
                reply_error = error_in(error, ReplyTypeError)
                if reply_error is None:
                    raise
                self.reply_error = self.reply_error or reply_error
                raise reply_error from None

        await call.run(noting_handler)


def _is_cancellation(error: BaseException) -> bool:
    return all(isinstance(each, trio.Cancelled) for each in leaves(error))


async def _unimplemented(call: Call) -> None:
    call.abort(StatusCode.UNIMPLEMENTED, f"no handler for {call.path}")


@asynccontextmanager
async def serve(
    handlers: Mapping[str, Handler] | None = None,
    *,
    fallback: Handler | None = None,
    address: str = "127.0.0.1:0",
    network: ServerListener | None = None,
    max_concurrent_streams: int | None = MAX_CONCURRENT_STREAMS,
    max_receive_size: int = MAX_RECEIVE_SIZE,
    options: WireOptions | None = None,
    limits: ServerLimits = DEFAULT_LIMITS,
    tls: ssl.SSLContext | None = None,
    remember_calls: bool = True,
) -> AsyncIterator[Server]:
    """Run a server for the length of a block; `Server` has the arguments.

    An exception of the block comes out unchanged, not in a group; so does the `OSError` of an address that cannot be
    used, and the `RuntimeError` of a caller outside of Trio. If a handler has replied with a value of the wrong type,
    the block ends with a `TypeError`, also if its client had a fallback for the failed call. The exception of the
    block, if there is one, is its cause.
    """
    check_in_trio("trxds.testing.serve", "call trio.run in a thread of its own")
    server = Server(
        handlers,
        fallback=fallback,
        address=address,
        network=network,
        max_concurrent_streams=max_concurrent_streams,
        max_receive_size=max_receive_size,
        options=options,
        limits=limits,
        tls=tls,
        remember_calls=remember_calls,
    )
    failure: Exception | None = None
    try:
        async with open_background_nursery("the block of the server is left") as nursery:
            await nursery.start(server.run)
            yield server
    except Exception as error:
        failure = error
    except BaseException as error:
        # A test that ends by a timeout must not pass with a wrong reply either.
        if server.reply_error is None or not _is_cancellation(error):
            raise
    if server.reply_error is not None:
        raise server.reply_error from failure
    if failure is not None:
        raise failure
