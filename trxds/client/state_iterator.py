"""A `StateIterator` yields a channel's states. It is no async generator, so an abandoned one needs no cleanup."""

from __future__ import annotations

from trxds.core.connectivity import Connectivity

from .channel_state import ChannelState


class StateIterator:
    """The iterator of `Channel.states`. A slow reader skips states; iteration ends when the channel closes."""

    def __init__(self, channel: ChannelState) -> None:
        self._channel = channel
        self._last: Connectivity | None = None

    def __aiter__(self) -> StateIterator:
        return self

    async def __anext__(self) -> Connectivity:
        self._channel.lifecycle.check_run()
        self._last = await self._channel.data_plane.wait_for_state_change(self._last)
        if self._last is None:
            raise StopAsyncIteration
        return self._last
