"""What tests do with an engine that nobody else waits for."""

from __future__ import annotations

from trxds.wire.engine import Engine
from trxds.wire.events import Event


def receive_all(engine: Engine, data: bytes) -> list[Event]:
    """What those bytes mean, in as many steps as the engine takes."""
    events = list(engine.receive(data))
    while engine.unread:
        events += engine.receive(b"")
    return events
