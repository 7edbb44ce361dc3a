"""h2 trusts a frame's header until the whole frame has come, so the headers are checked before h2 reads them."""

from __future__ import annotations

from . import frames
from .events import ErrorCode
from .flood_guard import SETTINGS_BYTES_PER_FRAME
from .frames import CONTINUATION, DATA, HEADERS, SETTINGS, Http2ProtocolError
from .options import WireOptions
from .stream_state import DEFAULT_MAX_FRAME

_HEAD_SIZE = 9
# The frames that one step may read, or data that costs as much. h2 takes six times as long for one as the fast engine.
_MAX_STEP_COST = 64
_DATA_SHIFT = 11  # 2 KiB of data cost as much as a frame,
_SHIFT = 6  # ... and 64 bytes of anything else


class FrameHeads:
    """Walks from frame header to frame header, so that an absurd length is noticed at once.

    On the way it counts frames that carry nothing of a call, and says where h2 has to stop for a while.
    """

    __slots__ = (
        "_block_size",
        "_bytes_to_header",
        "_is_client",
        "_is_first",
        "_max_block",
        "_max_frame",
        "_partial_header",
        "overhead",
    )

    def __init__(self, is_client: bool, options: WireOptions) -> None:
        self.overhead = 0
        self._is_client = is_client
        self._bytes_to_header = 0 if is_client else len(frames.PREFACE)  # bytes to come before the next frame header
        self._max_frame = options.max_frame
        self._max_block = options.header_block_bound
        self._block_size = 0  # bytes of the header block so far: h2 counts only its frames
        self._partial_header = b""  # the beginning of an incomplete frame header
        self._is_first = True

    def check(self, data: bytes) -> int:
        """Return the number of bytes of `data` that h2 may read now."""
        before = len(self._partial_header)
        if before:
            data, self._partial_header = self._partial_header + data, b""
        position, cost = self._bytes_to_header, 0
        while position + _HEAD_SIZE <= len(data):
            if cost >= _MAX_STEP_COST:
                self._bytes_to_header = 0
                return position - before
            length = int.from_bytes(data[position : position + 3])
            if self._is_first:
                self._is_first = False
                frames.check_is_settings(data[position : position + _HEAD_SIZE])
            if length > self._max_frame:
                agreed = f"where {self._max_frame} were agreed on"
                raise Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"frame of {length} bytes, {agreed}")
            kind = data[position + 3]
            self._check_block(kind, length)
            self.overhead += self._overhead_of(kind, data[position + 4], length)
            cost += 1 + (length >> (_SHIFT if kind else _DATA_SHIFT))
            position += _HEAD_SIZE + length
        self._partial_header = data[position:]
        self._bytes_to_header = max(0, position - len(data))
        return len(data) - before

    def _overhead_of(self, kind: int, flags: int, length: int) -> int:
        if kind == DATA:
            return 0  # h2 removes the padding first, which may leave nothing
        if kind == HEADERS:
            return self._is_client  # only at a client: at a server each header block begins a request
        if kind == CONTINUATION:
            # An honest peer fills a frame before it begins another.
            return not flags & frames.END_HEADERS and length < DEFAULT_MAX_FRAME
        return 1 + length // SETTINGS_BYTES_PER_FRAME if kind == SETTINGS else 1

    def _check_block(self, kind: int, length: int) -> None:
        if kind not in (HEADERS, CONTINUATION):
            return
        self._block_size = length if kind == HEADERS else self._block_size + length
        if self._block_size > self._max_block:
            raise Http2ProtocolError(
                ErrorCode.ENHANCE_YOUR_CALM, f"header block without end: {self._block_size} bytes so far"
            )
