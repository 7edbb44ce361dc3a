"""A connection as a Socket message: its counters, its addresses, and how it is secured."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import trio

from trxds.core.clock import Clock
from trxds.transport.connection import Connection
from trxds.transport.transport import socket_below


def fill_socket(message: Any, connection: Connection, clock: Clock) -> None:
    _fill_data(message.data, connection, clock)
    stream = connection.http2.reader.transport.stream
    if isinstance(stream, trio.SSLStream):
        _fill_security(message.security, stream)
    below = socket_below(stream)
    if below is not None:
        _fill_addresses(message, below.socket)
    else:
        message.remote.other_address.name = connection.peer


def _fill_data(data: Any, connection: Connection, clock: Clock) -> None:
    streams, counts, engine = connection.streams, connection.http2.counts, connection.http2.engine
    calls = streams.calls
    data.streams_started = calls.started
    data.streams_failed = streams.broken
    data.streams_succeeded = calls.started - len(streams.open) - streams.broken
    data.messages_sent, data.messages_received = counts.messages_sent, counts.messages_received
    data.keep_alives_sent = counts.pings_sent
    clock.stamp(data.last_local_stream_created_timestamp, calls.last_started)
    clock.stamp(data.last_message_sent_timestamp, counts.last_sent)
    clock.stamp(data.last_message_received_timestamp, counts.last_received)
    data.local_flow_control_window.value = engine.connection_window  # what the host grants us
    data.remote_flow_control_window.value = engine.receive_window
    # A server that allows any number allows more than the field can say.
    data.peer_max_concurrent_streams = min(engine.peer_max_streams, 2**32 - 1)
    if connection.goaway is not None:
        data.received_goaway_error.value = connection.goaway


def _fill_addresses(message: Any, connected: trio.socket.SocketType) -> None:
    try:
        local, remote = connected.getsockname(), connected.getpeername()
    except OSError:
        return  # it was closed a moment ago
    _fill_address(message.local, connected.family, local)
    _fill_address(message.remote, connected.family, remote)


def _fill_address(message: Any, family: int, address: Any) -> None:
    if family == socket.AF_UNIX:
        message.uds_address.filename = address
    else:
        ip, port = address[:2]
        message.tcpip_address.ip_address = ipaddress.ip_address(ip.partition("%")[0]).packed
        message.tcpip_address.port = port


def _fill_security(security: Any, stream: trio.SSLStream[trio.abc.Stream]) -> None:
    cipher = stream.cipher()
    if cipher is not None:
        name = cipher[0]  # OpenSSL's; from TLS 1.3 on that is the standard's
        setattr(security.tls, "standard_name" if name.startswith("TLS_") else "other_name", name)
    security.tls.remote_certificate = stream.getpeercert(binary_form=True) or b""
