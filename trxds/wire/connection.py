"""A client's connection: which streams it opens, and when it takes no more of them."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import takewhile

import trio

from trxds.ground.calls import Calls
from trxds.ground.metadata import Headers
from trxds.ground.status import Status, StatusCode, unavailable

from .disconnects import UNKNOWN
from .engine import Engine
from .events import Answered, DataReceived, GoAwayReceived, HeadersReceived, code_name
from .fast_http2 import FastHttp2Engine
from .header_blocks import list_size
from .http2 import H2Engine
from .keepalive import Keepalive
from .link import Link
from .moderation import MANY, ReadModeration
from .observed import ObservedStream
from .options import WireOptions
from .request import FixedFields, Request
from .response import Answers
from .send_queue import TURNS
from .stream import ClientStream
from .turns import MOMENT, Turns

# What headers have beside the metadata is not more, unless path or authority are very long.
_FIXED_AND_MORE = 4096
_NOTHING: Headers = []


class Connection(Link[ClientStream]):
    """One connection to `peer`, over a transport that stands. It owns the transport.

    It takes new streams until the server says GOAWAY, `retire()` or `close()` is called, or the
    transport is lost; `on_draining` is called at that moment, before any stream is refused. `on_ready`
    is called once, when the server's SETTINGS have come: before that it may be anything that accepts
    connections. It is not called if the same read brought the end (a GOAWAY, say).
    """

    def __init__(
        self,
        transport: trio.abc.Stream,
        *,
        peer: str,
        options: WireOptions | None = None,
        keepalive: Keepalive | None = None,
    ) -> None:
        options = options or WireOptions()
        super().__init__(transport, _engine(options), peer=peer, options=options)
        self.answers = Answers(peer)
        self.on_ready: Callable[[], None] | None = None
        self.on_draining: Callable[[], None] | None = None
        self.since = trio.current_time()
        self.error: Status | None = None
        """Why it takes no new streams; None while it does."""
        self._scheme = b"https" if isinstance(transport, trio.SSLStream) else b"http"
        self._keepalive = keepalive
        self._fixed = FixedFields(self._scheme)
        self._fits = _NOTHING  # metadata that was last found to be no more than the server takes
        # In order, and any of them may leave at any time: a list would have to be searched for it.
        self._waiting: OrderedDict[ClientStream, None] = OrderedDict()
        self.turns = Turns(self, self._transport)
        self._moderation = ReadModeration(options.read_pause)
        self._spoken_to: set[int] = set()  # streams with data in one read, where many are open
        self._spoken_at = -math.inf
        self._last_opened = 0
        self._opened_at = -math.inf
        self._calls_failed = 0
        self.streams_broken = 0
        """Those that ended otherwise than by the server's last word."""
        self.goaway: int | None = None
        """The code with which the server said GOAWAY."""
        self.last_taken = 0  # the last stream whose headers were handed to the transport
        self._settled: trio.Event | None = None  # made for the first who waits
        self._ready = False

    def __repr__(self) -> str:
        state = "over" if self.over else "draining" if self.error else "open"
        return f"<Connection {self.peer} {state}, {self.stream_count} streams>"

    @property
    def ready(self) -> bool:
        """The server's SETTINGS have come, and it takes new streams."""
        return self._ready and self.error is None

    @property
    def stream_count(self) -> int:
        """Streams that are not over, those in the queue included."""
        return len(self.streams) + len(self._waiting)

    @property
    def calls(self) -> Calls:
        """Those that left the queue."""
        opened = (self._last_opened + 1) // 2
        succeeded = opened - len(self.streams) - self._calls_failed
        return Calls(opened, succeeded, self._calls_failed, self._opened_at)

    async def wait_ready(self) -> bool:
        """Wait for the server's SETTINGS; False if the connection was over first."""
        if self._settled is None:
            self._settled = trio.Event()
            self._settle()
        await self._settled.wait()
        return self._ready and self.over is None

    def _begin(self, nursery: trio.Nursery) -> None:
        if self._keepalive is not None:
            nursery.start_soon(self._keepalive.watch, self, name=f"wire/keepalive/{self.peer}")

    # -- streams

    def open_stream(self, request: Request) -> ClientStream | None:
        """Begin a call; None if the connection takes no new streams. Never a checkpoint.

        When the server has as many as it allows, or the buffer is full, the stream waits in a
        queue: it can be used, but nothing of it is sent, and its timeout is computed, until it opens. If
        the headers are more than the server takes, the stream is over at once and nobody has seen it.
        """
        now = self.now()
        if self.turns.lent and self.error is None:
            if now > self.last_read + MOMENT:
                self.turns.catch_up()
            if request.message is None:
                self.turns.call_reader()  # a stream's caller does not read
        if self.error is not None:
            return None
        stream = ClientStream(self, request) if request.observer is None else ObservedStream(self, request)
        if (
            request.metadata is not self._fits
            and request.metadata
            and (problem := self._oversized(request)) is not None
        ):
            stream.fail(problem)
            return stream
        if self._waiting or not self._may_open():
            self._waiting[stream] = None
            self._open_waiting()
            self.turns.call_reader()
        else:
            self._open(stream, now)
        if stream.sending:
            self._write_soon()  # the next thing that the caller says goes along
        else:
            self._wrote()
        return stream

    def _oversized(self, request: Request) -> Status | None:
        size, limit = list_size(request.metadata), self.engine.peer_max_header_list
        if size <= limit - _FIXED_AND_MORE:
            if size <= _FIXED_AND_MORE:  # what is large need not live longer for that
                self._fits = request.metadata
            return None
        size += list_size([*self._fixed(request.path, request.authority), *request.timeout(trio.current_time())])
        if size <= limit:
            return None
        text = f"{self.peer}: headers of {size} bytes are more than the {limit} that it takes; send less metadata"
        return Status(StatusCode.RESOURCE_EXHAUSTED, text)

    def _open_waiting(self) -> None:
        turns = TURNS
        while self._waiting and self._may_open():
            if not turns:
                return self._left_behind()
            turns -= 1
            stream = self._waiting.popitem(last=False)[0]
            self._open(stream, self.now())
            stream.left_queue()

    def _open(self, stream: ClientStream, now: float) -> None:
        request = stream.request
        fixed = self._fixed(request.path, request.authority)
        # With a message that is the whole request the stream begins and ends in one go: most calls are so.
        whole = stream.whole
        if len(whole) > self.engine.opening_room():
            whole = b""
        passing = request.timeout(now) if request.deadline < math.inf else _NOTHING
        stream_id = self.engine.open_stream(fixed, request.metadata, passing, whole)
        self._last_opened = stream_id
        self.streams[stream_id] = stream
        stream.opened_at = self._opened_at = now
        stream.begin(stream_id, said=bool(whole))

    def _may_open(self) -> bool:
        if self.engine.exhausted:
            self.disconnect = UNKNOWN
            self._leave(unavailable(f"{self.peer}: the connection has used all its stream identifiers"))
            return False
        return (
            len(self.streams) < self.engine.peer_max_streams and self.engine.outgoing.unsent < self.options.unsent_bound
        )

    def forget(self, stream: ClientStream) -> None:
        """The stream is over: its place goes to the next in the queue."""
        if stream is self.turns.guest:
            self.turns.interrupt()
        if stream.id:
            self.streams.pop(stream.id, None)
            if stream.status is not None and not stream.status.ok:
                self._calls_failed += 1
        else:
            self._waiting.pop(stream, None)
        if self.over is not None:
            return
        if self._waiting:
            self._open_waiting()
            self._write_soon()
        if self.error is not None:
            self._close_when_drained()

    def _taken(self) -> None:
        self.last_taken = self._last_opened
        if self.send_queue.line or self._waiting:
            self._use_room()

    def _use_room(self) -> None:
        super()._use_room()
        if self._waiting:
            self._open_waiting()

    # -- what was read

    def _headers(self, event: HeadersReceived) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            if event.end and len(self.streams) >= MANY:
                self._moderation.answered(self.last_read - stream.opened_at, self.last_read)
            stream.accept_headers(event)

    def _answered(self, event: Answered) -> None:
        self._owed += len(event.data)
        if self._owed >= self._connection_credit:
            self._give_back()
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            if len(self.streams) >= MANY:
                self._moderation.answered(self.last_read - stream.opened_at, self.last_read)
            stream.accept_answer(event)

    def _data(self, event: DataReceived) -> None:
        super()._data(event)
        if len(self.streams) >= MANY:
            if self._spoken_at != self.last_read:  # nobody asked after that read, for then they were fewer
                self._spoken_to.clear()
                self._spoken_at = self.last_read
            self._spoken_to.add(event.stream_id)

    def _window_opened(self, stream_id: int) -> None:
        super()._window_opened(stream_id)
        self._moderation.disturbed(self.last_read)

    def _meanwhile(self) -> Callable[[], Awaitable[None]] | None:
        """Let answers gather, or lone callers read."""
        if len(self.streams) >= MANY:
            pause = self._pause()
            return partial(trio.sleep, pause) if pause else None
        if not self.streams and self.turns.may_lend(self._last_opened, self.last_read):
            return self.turns.stand_aside
        return None

    def _pause(self) -> float:
        if self._spoken_at == self.last_read and not self._spoken_to.isdisjoint(self.streams):
            self._moderation.disturbed(self.last_read)
        return self._moderation.pause(len(self.streams), self.last_read)

    def credit(self, stream_id: int, size: int) -> None:
        super().credit(stream_id, size)
        self.turns.call_reader()  # this takes longer, and the answer to a PING may be waited for

    def _settings(self) -> None:
        if not self._ready:
            self._ready = True
            self._settle()
            self._afterwards = self._tell_ready
        self._fits = _NOTHING
        super()._settings()
        if self._waiting:
            self._left_behind()

    def _settle(self) -> None:
        if self._settled is not None and (self._ready or self.over is not None):
            self._settled.set()

    def _tell_ready(self) -> None:
        if self.on_ready is not None and self.error is None:
            self.on_ready()

    def _goaway(self, event: GoAwayReceived) -> None:
        if self._keepalive is not None and self._keepalive.heed(event, self.peer):
            self._keepalive = None  # one complaint of a connection is enough, however often it is made
        self.goaway = event.code
        self.disconnect = f"GOAWAY {code_name(event.code)}"
        debug = f": {event.debug.decode('utf-8', 'replace')}" if event.debug else ""
        status = unavailable(f"{self.peer}: GOAWAY {code_name(event.code)}{debug}")
        self._leave(status)
        self._end_streams(self._above(event.last_stream_id), partial(ClientStream.fail, status=status, refused=True))
        self._close_when_drained()

    def _above(self, last_stream_id: int) -> list[ClientStream]:
        """The streams that the server has not processed. They are the last in order: the others are not looked at."""
        later = takewhile(lambda stream_id: stream_id > last_stream_id, reversed(self.streams))
        return [self.streams[stream_id] for stream_id in later][::-1]

    def _leave(self, status: Status) -> None:
        """Nothing more can be opened here, not even what is in the queue."""
        self._drain(status)
        waiting, self._waiting = self._waiting, OrderedDict()
        self._end_streams(tuple(waiting), partial(ClientStream.fail, status=status, refused=True))

    def _loss(self, error: BaseException | None) -> str:
        """Who hangs up before the first word often means our credentials, and does not say so."""
        text = super()._loss(error)
        if self._ready:
            return text
        doubt = "want a certificate from us" if self._scheme == b"https" else "speak TLS"
        return f"{text} before HTTP/2 began; does it {doubt}?"

    # -- the end

    def retire(self) -> None:
        """Take no new streams, and close when the last has ended."""
        self._drain(unavailable(f"{self.peer}: the connection is no longer wanted"))
        self._close_when_drained()

    def _drain(self, status: Status) -> None:
        if self.error is None:
            self.error = status
            if self.on_draining is not None:
                self.on_draining()

    def _close_when_drained(self) -> None:
        if self.error is not None and self.over is None and not self.stream_count:
            self.close(self.error)

    def _ended(self, status: Status) -> None:
        self._settle()
        self._leave(status)
        last_taken = self.last_taken  # what is in the buffer still leaves, but nobody reads an answer
        self._end_streams(
            tuple(self.streams.values()),
            lambda stream: stream.fail(status, refused=stream.id > last_taken),
        )


def _engine(options: WireOptions) -> Engine:
    return FastHttp2Engine(options) if options.lean else H2Engine(client=True, options=options)
