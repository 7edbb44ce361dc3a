"""What tests do with an engine that nobody else waits for."""

from __future__ import annotations

from trxds.transport.engine import Http2Engine
from trxds.transport.events import DataReceived, Event, HeadersReceived, UnaryResponse
from trxds.transport.framing import frame


def receive_all(engine: Http2Engine, data: bytes) -> list[Event]:
    """What those bytes mean, in as many steps as the engine takes."""
    events = list(engine.receive(data))
    while engine.unread:
        events += engine.receive(b"")
    return events


def parts_of(event: Event) -> tuple[Event, ...]:
    """The three events that an `Answered` stands for; any other is itself."""
    if not isinstance(event, UnaryResponse):
        return (event,)
    data = frame(event.message)
    return (
        HeadersReceived(event.stream_id, event.headers, False),
        DataReceived(event.stream_id, data, len(data), False),
        HeadersReceived(event.stream_id, event.trailers, True),
    )
