"""gRPC puts five bytes before every message: a compressed flag and the length, big-endian (PROTOCOL-HTTP2).

A large message arrives in many DATA frames, and each is copied to its place once.
"""

from __future__ import annotations

import struct
from collections import deque

from trxds.core.status import Status, StatusCode

from .compression import ACCEPTED, IDENTITY, Compressed, describe_encoding, is_known_encoding
from .events import Octets
from .message_buffer import MessageBuffer

_PREFIX = struct.Struct(">BI")
PREFIX_SIZE = _PREFIX.size
MAX_COPIED_MESSAGE = 16 * 1024
"""The largest message, in bytes, that is copied behind its prefix."""

_COPIED_SIZE = MAX_COPIED_MESSAGE - PREFIX_SIZE  # the part of a large message that is copied behind the prefix


def frame(message: bytes) -> bytes:
    """Return the message as DATA frames carry it."""
    return _PREFIX.pack(type(message) is Compressed, len(message)) + message


def frame_large(message: bytes) -> tuple[memoryview, memoryview]:
    """Return the same in two parts, of which only the first is a copy: unsent bytes stay the caller's."""
    prefix = _PREFIX.pack(type(message) is Compressed, len(message))
    return memoryview(prefix + message[:_COPIED_SIZE]), memoryview(message)[_COPIED_SIZE:]


class Deframer:
    """Cuts received bytes into complete messages; a `Status` is the one to end the stream with.

    A message with the compressed flag comes out as `Compressed`, if `encoding` is one that can be read here.
    """

    __slots__ = (
        "_is_compressed",
        "_missing",
        "_partial_message",
        "_partial_prefix",
        "buffered",
        "encoding",
        "max_size",
        "messages",
    )

    _partial_message: MessageBuffer  # of a message that comes in several DATA frames

    def __init__(self, max_message_size: int) -> None:
        self.max_size = max_message_size
        self.encoding = ""  # from the peer's headers, empty if they name none
        self._is_compressed = False  # whether the incomplete message has the compressed flag
        self._partial_prefix = b""  # the beginning of an incomplete prefix
        self._missing = 0  # bytes still to come of the message whose prefix has come; 0 between messages
        self.messages: deque[bytes] = deque()
        self.buffered = 0
        """Bytes that were fed and not yet taken, with the prefixes."""

    @property
    def between_messages(self) -> bool:
        """Whether the peer may end its half here without cutting off a message."""
        return not self._missing and not self._partial_prefix

    def feed(self, data: Octets) -> Status | None:
        """Take in received bytes, and keep only copies; a `Status` means that the stream cannot go on."""
        size = len(data)
        self.buffered += size
        if self._missing:
            data = self._complete(data)
        # A prefix may be cut anywhere: DATA frames know nothing of messages.
        elif self._partial_prefix:
            data, self._partial_prefix = self._partial_prefix + data, b""
        elif size >= PREFIX_SIZE:
            flag, length = _PREFIX.unpack_from(data)
            # Most servers send each message of a stream in a DATA frame of its own.
            if not flag and length + PREFIX_SIZE == size and length <= self.max_size:
                self.messages.append(bytes(data[PREFIX_SIZE:]))
                return None
        return self._split(data)

    def take(self) -> bytes | None:
        """Return the next complete message, or None."""
        if not self.messages:
            return None
        message = self.messages.popleft()
        self.buffered -= PREFIX_SIZE + len(message)
        return message

    def _complete(self, data: Octets) -> Octets:
        """Add to the message that is under way; return the bytes behind it."""
        part = data[: self._missing]
        self._partial_message.add(part)
        self._missing -= len(part)
        if self._missing:
            return b""
        message = self._partial_message.take()
        self.messages.append(Compressed(message) if self._is_compressed else message)
        return data[len(part) :]

    def _split(self, data: Octets) -> Status | None:
        """Cut complete messages off `data`, which begins with a prefix; keep the rest."""
        position = 0
        while len(data) - position >= PREFIX_SIZE:
            flag, length = _PREFIX.unpack_from(data, position)
            # The prefix alone decides: a message above the limit is refused before any of it is kept.
            if (flag or length > self.max_size) and (problem := self._check_prefix(flag, length)) is not None:
                return problem
            start = position + PREFIX_SIZE
            position = start + length
            if position > len(data):
                # Only now, when the length has been checked, memory is taken for it.
                self._partial_message = MessageBuffer(length)
                self._partial_message.add(data[start:])
                self._missing = position - len(data)
                self._is_compressed = flag == 1
                return None
            message = bytes(data[start:position])
            self.messages.append(Compressed(message) if flag else message)
        self._partial_prefix = bytes(data[position:])
        return None

    def _check_prefix(self, flag: int, length: int) -> Status | None:
        if flag > 1:
            return Status(StatusCode.INTERNAL, f"message with compressed flag {flag}, which is neither 0 nor 1")
        # compression.md: the flag without a known encoding is INTERNAL.
        if flag and not is_known_encoding(self.encoding):
            return Status(
                StatusCode.INTERNAL, f"message with the compressed flag, but {self._describe_encoding_error()}"
            )
        if length <= self.max_size:
            return None
        return Status(
            StatusCode.RESOURCE_EXHAUSTED,
            f"received message of {length} bytes is larger than the limit of {self.max_size}; raise max_receive_size",
        )

    def _describe_encoding_error(self) -> str:
        if self.encoding in {"", IDENTITY}:
            return "the headers name no compression"
        return f"its compression {describe_encoding(self.encoding)} is unknown here; known are {ACCEPTED.decode()}"
