"""A client's connection has open streams, and streams that wait until the server allows one more."""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import partial
from itertools import takewhile

from trxds.core.calls import Calls
from trxds.core.metadata import Headers

from .authority_check import AuthorityCheck
from .client_stream import ClientStream, StreamOwner
from .framing import MAX_COPIED_MESSAGE, PREFIX_SIZE
from .http2_connection import Http2Connection
from .request import RequestHeaders
from .send_queue import MAX_STREAMS_PER_STEP

_NO_TIMEOUT: Headers = []


class StreamTable:
    """The streams of one connection, their `owner`."""

    def __init__(
        self, http2: Http2Connection, streams: dict[int, ClientStream], headers: RequestHeaders, owner: StreamOwner
    ) -> None:
        self.open = streams
        # An ordered dict, because any of them may leave at any time: a list would have to be searched.
        # A105: several connections to one host have one queue, which `WorkingConnections` sets.
        self.waiting: OrderedDict[ClientStream, None] = OrderedDict()
        self.max_streams = http2.engine.peer_max_streams
        """The server's SETTINGS_MAX_CONCURRENT_STREAMS."""
        self.last_opened = 0
        self.last_taken = 0
        """The identifier of the last stream whose headers were handed to the transport."""
        self.opened_at = -math.inf
        """The time when the last stream was opened, on Trio's clock."""
        self.failed = 0
        """The number of calls whose status was not OK."""
        self.broken = 0
        """The number of streams that the server's last frame did not end."""
        self._http2 = http2
        self._headers = headers
        self._owner = owner
        self._authorities = AuthorityCheck(http2.reader.transport.stream, http2.peer)

    def __len__(self) -> int:
        """Return the number of streams that have not ended, with those that wait."""
        return len(self.open) + len(self.waiting)

    @property
    def calls(self) -> Calls:
        """Counts of the streams that were opened."""
        opened = (self.last_opened + 1) // 2
        return Calls(opened, opened - len(self.open) - self.failed, self.failed, self.opened_at)

    @property
    def is_full(self) -> bool:
        """Whether as many streams are open as the server allows."""
        return len(self.open) >= self.max_streams

    def none_taken(self) -> bool:
        """Return whether the headers of all open streams still wait to be sent, so the server has nothing to do."""
        # A client's stream identifiers are odd (RFC 9113 §5.1.1); before the first stream both of these are 0.
        return len(self.open) == (self.last_opened - self.last_taken + 1) // 2

    def has_room(self) -> bool:
        """Return whether the server and the connection's buffer take one more stream."""
        engine = self._http2.engine
        # Identifiers are never reused, so a connection can run out of them (RFC 9113 §5.1.1).
        if engine.exhausted:
            self._owner.on_identifiers_exhausted()
            return False
        return len(self.open) < self.max_streams and engine.outgoing.unsent < self._http2.options.unsent_bound

    def begin(self, stream: ClientStream, now: float) -> bool:
        """Send a stream's headers; return whether the whole request went with them.

        If the peer's certificate does not prove the authority (A81) the stream ends, and is never sent.
        """
        request, engine = stream.request, self._http2.engine
        # Here and not before it waits: only the connection that sends it knows the peer that will get it.
        if request.overrides_authority and (problem := self._authorities.error(request.authority)) is not None:
            # Later, because the end of a stream opens the next one that waits, which may fail as well.
            self._http2.tasks.end_each((stream,), partial(ClientStream.fail, status=problem), at_once=0)
            return True
        # Most calls send one message: then headers, message and END_STREAM leave together.
        message = request.message
        if message is not None:
            size = len(message)
            if size > MAX_COPIED_MESSAGE or PREFIX_SIZE + size > engine.initial_data_limit():
                message = None  # headers need no window; the message waits in the send queue
        # The timeout is computed only now: time in the queue counts.
        timeout = request.timeout(now) if request.deadline < math.inf else _NO_TIMEOUT
        fields = self._headers.fields(request.path, request.authority)
        stream_id = engine.open_stream(fields, request.metadata, timeout, message)
        self.last_opened, self.opened_at = stream_id, now
        self.open[stream_id] = stream
        is_complete = message is not None
        stream.begin(stream_id, now, complete=is_complete)
        return is_complete

    def begin_waiting(self) -> None:
        """Open streams that wait, in order, as far as server and buffer allow."""
        # RFC 9113 §6.5.3: SETTINGS of this same read hold already, though their event may be still to come.
        self.max_streams = self._http2.engine.peer_max_streams
        turns = MAX_STREAMS_PER_STEP
        while self.waiting and self.has_room():
            if not turns:
                return self._http2.writer.continue_later()
            turns -= 1
            stream = self.waiting.popitem(last=False)[0]
            stream.move_to(self._owner)
            self.begin(stream, self._http2.counts.now())

    def leave_queue(self, other: StreamOwner) -> None:
        """Keep none of the streams that wait: they now belong to the `other` connection, which has the same queue."""
        for stream in self.waiting:
            stream.move_to(other)
        self.waiting = OrderedDict()

    def forget(self, stream: ClientStream) -> None:
        """Remove a stream that has ended."""
        # Nothing is kept of closed streams: the engine recognizes their identifiers, which are below the next one.
        if stream.id:
            self.open.pop(stream.id, None)
            if stream.status is not None and not stream.status.ok:
                self.failed += 1
        else:
            self.waiting.pop(stream, None)

    def unprocessed_after(self, last_stream_id: int) -> list[ClientStream]:
        """Return the streams that the server has not processed.

        They are the last in order, so only they are visited.
        """
        later = takewhile(lambda stream_id: stream_id > last_stream_id, reversed(self.open))
        return [self.open[stream_id] for stream_id in later][::-1]

    def pop_waiting(self) -> tuple[ClientStream, ...]:
        """Return the streams that wait, and keep none of them."""
        waiting, self.waiting = self.waiting, OrderedDict()
        return tuple(waiting)
