"""The send windows of a client's streams, and the bound that they all have (RFC 9113 §6.9)."""

from __future__ import annotations

import pytest

from trxds.transport.frames import MAX_WINDOW, Http2ProtocolError
from trxds.transport.options import WireOptions
from trxds.transport.stream_state import StreamState, StreamStates


@pytest.fixture
def streams() -> StreamStates:
    """A connection with two streams, whose windows are those of the settings."""
    streams = StreamStates(WireOptions())
    streams.open = {1: StreamState(0), 3: StreamState(0)}
    streams.set_initial_send_window(1000)
    return streams


def window_of(streams: StreamStates, stream_id: int) -> int:
    return streams.initial_send_window + streams.open[stream_id].send_offset


def test_a_stream_window_may_reach_the_largest_one_and_no_more(streams: StreamStates) -> None:
    assert streams.open_send_window(streams.open[1], MAX_WINDOW - 1000)
    assert window_of(streams, 1) == MAX_WINDOW
    assert not streams.open_send_window(streams.open[1], 1)


def test_settings_may_open_the_widest_stream_to_the_largest_window_and_no_more(streams: StreamStates) -> None:
    streams.open_send_window(streams.open[1], 500)
    streams.open_send_window(streams.open[3], 100)
    streams.set_initial_send_window(MAX_WINDOW - 500)
    assert (window_of(streams, 1), window_of(streams, 3)) == (MAX_WINDOW, MAX_WINDOW - 400)
    with pytest.raises(Http2ProtocolError, match="INITIAL_WINDOW_SIZE"):
        streams.set_initial_send_window(MAX_WINDOW - 499)


def test_a_stream_that_has_ended_limits_no_settings(streams: StreamStates) -> None:
    streams.open_send_window(streams.open[1], 500)
    streams.open_send_window(streams.open[3], 100)
    del streams.open[1]
    streams.set_initial_send_window(MAX_WINDOW - 100)
    assert window_of(streams, 3) == MAX_WINDOW
