"""This file has what any thread can read of channels, sessions and calls, for `trxds.sync` and `trxds.aio`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import trxds
from trxds.session_affinity.session_token import Key

H = TypeVar("H")
T = TypeVar("T")


class View(Generic[H, T]):
    """A `View` wraps an object of Trio's thread; `_hand_over` brings functions of the object there."""

    def __init__(self, hand_over: H, wrapped: T) -> None:
        self._hand_over = hand_over
        self._wrapped = wrapped

    def __repr__(self) -> str:
        package = type(self).__module__.rpartition(".")[0]
        return f"<{package} {self._wrapped!r}>"


class ChannelView(View[H, trxds.Channel]):
    """A channel's target and state."""

    @property
    def target(self) -> str:
        """Return the target that the channel was opened with."""
        return self._wrapped.target

    @property
    def state(self) -> trxds.Connectivity | None:
        """Return the channel's connectivity state; see `trxds.Channel.state`."""
        return self._wrapped.state


class CallView(View[H, trxds.Call[Any, Any]]):
    """The metadata, status and host of an open call."""

    @property
    def initial_metadata(self) -> trxds.Metadata | None:
        """Return the server's initial metadata; None until it has arrived, empty for a trailers-only response."""
        return self._wrapped.initial_metadata

    @property
    def trailing_metadata(self) -> trxds.Metadata:
        """Return the metadata that came with the status; empty before the call's end."""
        return self._wrapped.trailing_metadata

    @property
    def status(self) -> trxds.Status | None:
        """Return the call's status; None until `receive` has returned None or the only reply, or it has failed."""
        return self._wrapped.status

    @property
    def peer(self) -> str:
        """Return the address of the host that has the call; empty while there is none."""
        return self._wrapped.peer


class BoundCallsView(View[H, trxds.BoundCalls]):
    """The host of bound calls."""

    @property
    def host(self) -> str:
        """Return the host as `ip:port`."""
        return self._wrapped.host

    @property
    def cluster(self) -> str:
        """Return the host's cluster."""
        return self._wrapped.cluster


class SessionView(View[H, trxds.Session]):
    """The hosts of a session, and its token."""

    @property
    def hosts(self) -> Mapping[trxds.CookieKey, trxds.SessionHost]:
        """Return the host and cluster that each cookie names; see `trxds.Session.hosts`."""
        return self._wrapped.hosts

    @property
    def host(self) -> str | None:
        """Return the session's host, None before the first response; see `trxds.Session.host`."""
        return self._wrapped.host

    @property
    def cluster(self) -> str | None:
        """Return the cluster of the session's host; see `trxds.Session.cluster`."""
        return self._wrapped.cluster

    @property
    def since(self) -> float:
        """Return when the session was opened, in seconds on Trio's clock, which `Channel.submit` can read."""
        return self._wrapped.since

    @property
    def calls(self) -> int:
        """Return how many calls have begun in the session."""
        return self._wrapped.calls

    def export(self, *, key: Key | None = None) -> str:
        """Return the session as a token, a credential; see `trxds.Session.export`."""
        return self._wrapped.export(key=key)


class SessionPoolView(View[H, trxds.SessionPool]):
    """The size of a pool of sessions."""

    def __len__(self) -> int:
        return len(self._wrapped)
