"""What can be seen of a channel at work: who watches overrides what it wants to be told of.

Telemetry, the feed of the live page and a user's own watcher all stand here. Every event is a plain function
call in the step in which it happens, so it must not wait and should be short: what is slow goes into a buffer of
the observer's own. An observer that raises is logged once and harms nobody (`observers.py`).

What is told often, of calls and their messages, is told to an object of the call's own, which the observer makes
when the call begins. With nobody watching there is none, and each event of an RPC is one `is not None`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from .metadata import EMPTY, Metadata, Value
from .status import Status

# -- what is told


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call, from its first line on: the session's gate and the configuration may still have to be waited for.

    `path` is `/package.Service/Method`. `registered`: its messages are protobuf classes, so that the path is one of
    the program's methods and not what somebody sent it. `session` is the number of its session in the channel.
    `metadata` is the caller's: a session's cookie and what filters add come later.
    """

    path: str
    registered: bool = True
    session: int | None = None
    metadata: Metadata = EMPTY


@dataclass(frozen=True, slots=True)
class Pick:
    """A host was chosen. `cluster` is the route's, `backend` the one that the host is of: a leaf of an aggregate.

    `address` is the host's; `delayed`: an earlier pick of this attempt had to wait.
    """

    cluster: str
    backend: str
    address: str
    delayed: bool


@dataclass(frozen=True, slots=True)
class Location:
    """Of a host: the cluster that has it, no aggregate, and its locality as A78 writes it. Empty where unknown."""

    backend: str = ""
    locality: str = ""


NOWHERE = Location()


@dataclass(frozen=True, slots=True)
class SessionPick:
    """What became of the cookie of a call with a session filter: `hit` its host, `wait` for it, or `fallback`.

    A fallback is a choice as for anybody else, and `reason` says why: `no_cookie`, or the rule that a host of the
    cookie did not meet (`affinity/repin_reason.py`). `wanted` are the cookie's addresses.
    """

    result: str
    reason: str = ""
    wanted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionHostChanged:
    """A call has its response, so its session is on this host; `before`, if it was on another, and why it moved.

    Without a `before` the host is the session's first.
    """

    cluster: str
    address: str
    before: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class XdsRequest:
    """`answers` a response: a NACK if there is an `error`, otherwise an ACK; else what is asked for has changed.

    `names` are those that are asked for; in delta those that are now, and `removed` those that are no longer.
    """

    server: str
    type: str
    version: str
    nonce: str
    names: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    error: str = ""
    answers: bool = False


@dataclass(frozen=True, slots=True)
class XdsResponse:
    """`type` is as in `envoy.config.cluster.v3.Cluster`. `valid` and `invalid` are resources, unchanged ones too.

    A resource whose name cannot be read is `invalid` with an empty name; `errors` are what is wrong.
    """

    server: str
    type: str
    version: str
    nonce: str
    valid: tuple[str, ...] = ()
    invalid: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class XdsResource:
    """Where one resource stands now. `state` is a name of gRPC's (A78, A88), or empty: nobody wants it any more.

    `cached`: an older version is in use. `authority` is None for names of the old style.
    """

    type: str
    name: str
    authority: str | None
    state: str
    cached: bool = False
    version: str = ""


@dataclass(frozen=True, slots=True)
class WrrUpdate:
    """One update of weighted_round_robin (A58): the weights in use, 0 where there is none."""

    policy: str
    endpoints: tuple[float, ...]
    not_yet_usable: int
    stale: int
    fell_back: bool


@dataclass(frozen=True, slots=True)
class OutlierEvent:
    """Outlier detection found one (A50): `method` as in A91; `unenforced` says why it stays, empty if it is ejected.

    `backend` is the cluster that has it, no aggregate.
    """

    policy: str
    addresses: tuple[str, ...]
    method: str
    unenforced: str = ""
    backend: str = ""


# -- who is told


class AttemptObserver:
    """Of one attempt of a call, from before its pick to its end. `ended` comes once, and last."""

    __slots__ = ()

    def headers(self) -> Iterable[tuple[str, Value]]:
        """Metadata to send along, such as a trace's context."""
        return ()

    def delayed(self, why: str) -> None:
        """The pick has to wait: no host yet, or none that works and the call waits for ready. Once."""

    def picked(self, pick: Pick) -> None:
        """A host is chosen; another one may be, if it refuses the stream."""

    def session_picked(self, pick: SessionPick) -> None:
        """The attempt is of a session, or could found one. After a `wait` there is another."""

    def sent(self, size: int, wire_size: int) -> None:
        """A message was handed over to be sent; `wire_size` is less if it is compressed."""

    def received(self, size: int, wire_size: int) -> None:
        """The caller has taken a message."""

    def ended(self, status: Status) -> None:
        """It is over."""


class CallObserver:
    """Of one call over all its attempts. `ended` comes once, after those of its attempts."""

    __slots__ = ()

    def resolution_delayed(self) -> None:
        """There was no configuration when it began, and now there is."""

    def routed(self, cluster: str, hedged: bool) -> None:
        """Route and filters have chosen its cluster, an aggregate perhaps; if `hedged`, attempts may overlap (A6)."""

    def attempt(self, previous: int, transparent: bool) -> AttemptObserver | None:
        """An attempt begins; `previous` went before it, those not counted that no server can have seen."""
        return None

    def backing_off(self, seconds: float) -> None:
        """The next attempt begins so much later."""

    def settled(self, place: SessionHostChanged) -> None:
        """The response has begun, and the host is new to the session that the call is of."""

    def ended(self, status: Status) -> None:
        """It is over. A call that its caller left is CANCELLED."""


class Observer:
    """Of one channel: its calls, its conversation with control planes, its connections and its policies.

    Of an xDS client that channels share (`open_xds_client`): that conversation alone.
    """

    __slots__ = ()

    def call(self, call: CallStarted) -> CallObserver | None:
        """A call begins, in its caller's task and context."""
        return None

    def closed(self) -> None:
        """It is over, and nothing else will be told."""

    def session_opened(self, number: int) -> None: ...

    def session_closed(self, number: int) -> None: ...

    # -- the xDS client

    def xds_connected(self, server: str) -> None:
        """A stream has begun; whether the server answers is not known yet."""

    def xds_failed(self, server: str, reason: str) -> None:
        """No connection, or a stream that ended without a response (A57). The end of one that had some is no event."""

    def xds_disconnected(self, server: str) -> None:
        """It is asked no longer: a better one answers (A71), or nothing is wanted of it."""

    def xds_request_sent(self, request: XdsRequest) -> None: ...

    def xds_response_received(self, response: XdsResponse) -> None: ...

    def xds_resource(self, resource: XdsResource) -> None: ...

    # -- connections to hosts

    def connection_failed(self, address: str, status: Status) -> None:
        """An attempt to connect ended without a connection; not told of attempts that nobody wants any more."""

    def connection_opened(self, address: str, security: str) -> None:
        """`security` is `none` or `privacy_and_integrity` (A94)."""

    def connection_closed(self, address: str, security: str, why: str) -> None:
        """It takes no new calls. `why` is one of A94's words, such as `GOAWAY NO_ERROR` or `connection reset`."""

    # -- policies

    def weights(self, weights: WrrUpdate) -> None: ...

    def outlier(self, outlier: OutlierEvent) -> None: ...


class Locate(Protocol):
    """Where a host of the channel is. Plain; for a host of `backend`, or of whichever cluster has it."""

    def __call__(self, address: str, backend: str = "") -> Location: ...


class Telemetry(Protocol):
    """What `open_channel(telemetry=...)` takes."""

    def observe(self, target: str, locate: Locate) -> Observer:
        """An observer for the channel with that target, in its canonical form."""
        ...
