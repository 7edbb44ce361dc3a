"""A stream whose messages somebody watches. One that nobody watches has no part of this."""

from __future__ import annotations

from collections.abc import Sequence

from .compression import Compressed
from .stream import ClientStream


class ObservedStream(ClientStream):
    """Tells its request's observer of each message: when it is handed over, and when it is taken."""

    __slots__ = ()

    def begin(self, stream_id: int, *, said: bool) -> None:
        # Before it is open the call may still go elsewhere, and there say the same.
        if self.request.message is not None:
            self._sent(self.request.message)
        super().begin(stream_id, said=said)

    def send_nowait(self, message: bytes, *, end: bool = False) -> bool:
        taken = super().send_nowait(message, end=end)
        if taken:
            self._sent(message)
        return taken

    def say(self, messages: Sequence[bytes]) -> None:
        if self.sending and not self._ending:
            for message in messages:
                self._sent(message)
        super().say(messages)

    async def receive_only(self) -> bytes | None:
        message = await super().receive_only()
        if self._reply is not None and self.request.observer is not None:
            self.request.observer.received(len(self._reply), len(self._reply))
        return message

    def receive_nowait(self) -> bytes | None:
        wire_size = len(self._arrived.messages[0]) if self._arrived.messages else 0
        message = super().receive_nowait()
        if message is not None and self.request.observer is not None:
            self.request.observer.received(len(message), wire_size)
        return message

    def _sent(self, message: bytes) -> None:
        if self.request.observer is not None:
            size = message.whole if isinstance(message, Compressed) else len(message)
            self.request.observer.sent(size, len(message))
