"""The options of the transport, in one place: sizes in bytes, times in seconds."""

from __future__ import annotations

import math

from msgspec import Struct

from trxds.core.arguments import check_number, check_type, check_whole
from trxds.core.metadata import describe_flaw

MAX_METADATA_SIZE = 64 * 1024
MAX_READ_DELAY = 0.003
# Bytes of header fields that are decoded in less than 10 ms, or in 16 with Huffman code.
_MAX_QUICK_HEADER_LIST = 80 * 1024
_MAX_HEADER_BLOCK = 1024 * 1024
_MAX_USER_AGENT = 512  # characters; it is sent on each connection


class WireOptions(Struct, frozen=True):
    """The limits that one end of a connection sets for its peer, and for its own memory.

    Memory for received data is bounded by streams × `stream_window` (as far as that has grown), and by one message of
    the receive limit for each stream whose application is waiting for it.
    """

    stream_window: int = 256 * 1024
    max_stream_window: int = 4 * 1024 * 1024
    """The largest `stream_window`, reached where round trips are long and the application reads fast."""

    connection_window: int = 4 * 1024 * 1024
    """At least 65,535 bytes, with which every HTTP/2 connection begins (RFC 9113 §6.9.2)."""

    max_frame: int = 64 * 1024
    max_header_list: int = MAX_METADATA_SIZE
    """The limit announced to the peer as SETTINGS_MAX_HEADER_LIST_SIZE. Larger headers end their call."""

    max_concurrent_streams: int | None = None
    """The streams that the peer may have open; only a server announces it."""

    unsent_bound: int = 64 * 1024
    """With more bytes than this waiting for the socket, senders park even if their windows are open."""

    control_bound: int = 64 * 1024
    """With more bytes than this in unsent control frames, we stop reading the frames that provoke them."""

    overhead_rate: float = 1000
    """The frames a second that may carry nothing of a call, besides ten for each that we send: see `FloodGuard`.

    Above it the connection ends with ENHANCE_YOUR_CALM.
    """

    max_read_delay: float = MAX_READ_DELAY
    """The longest time that a client lets answers gather before it reads on; 0 for never. See `ReadCoalescing`."""

    user_agent: str = ""
    """What the user-agent header of a client's calls has after trxds's own name; empty for nothing."""

    lean: bool = True
    """Whether a client uses `FastHttp2Engine`; otherwise it uses h2, which checks more and costs more."""

    flush_timeout: float = 1.0
    """The time in which the last frames (a GOAWAY, say) have to leave when we close."""

    def __post_init__(self) -> None:
        # A setting of HTTP/2 has 32 bits (RFC 9113 §6.5.1).
        form = "a whole number of bytes from 1 to 4294967295"
        check_whole("max_metadata_size", self.max_header_list, 1, form, most=2**32 - 1)
        finite = "a finite number of seconds above 0, or 0 for none"
        check_number("max_read_delay", self.max_read_delay, lambda delay: 0 <= delay < math.inf, finite)
        _check_user_agent(self.user_agent)

    @property
    def header_list_bound(self) -> int:
        """A header list above this size is dropped; one between `max_header_list` and this is decoded. Both end a call.

        To decode a block takes up to 16 ms by default, during which no other task runs; a block that would take longer
        ends the connection. C-core has two such limits as well.
        """
        return max(self.max_header_list * 5 // 4, min(4 * self.max_header_list, _MAX_QUICK_HEADER_LIST))

    @property
    def header_block_bound(self) -> int:
        """A header block of more bytes than this, which have to be kept until its end, ends the connection."""
        return max(self.header_list_bound, _MAX_HEADER_BLOCK)


def _check_user_agent(text: str) -> None:
    check_type("user_agent", text, str, "a text such as 'shop/2.1'")
    flaw = describe_flaw(text) or ("a space at an end" if text != text.strip() else "")
    if flaw:
        raise ValueError(f"user_agent has {flaw}; write printable ASCII, such as 'shop/2.1 (eu-west)'")
    if len(text) > _MAX_USER_AGENT:
        raise ValueError(f"user_agent has {len(text)} characters; the most are {_MAX_USER_AGENT}")
