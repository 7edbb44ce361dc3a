"""Observers are notified of the events of a channel; a subclass overrides the methods of the events that it needs.

Telemetry (A66, A72, A78), the live page's state stream and users' own observers are built on it. Every event is a
synchronous call in the step in which it happens, so it must not block and should be short; slow work goes into a buffer
of the observer. An observer that raises is logged once and affects nothing else (`observers.py`).

The frequent events, of calls and their messages, go to an object per call, which the observer makes when the call
begins. Without observers there is no such object, and each event of an RPC costs one `is not None`. An event of a call
or an attempt whose method the observer's class does not override costs a look into a set.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from msgspec import Struct

from .metadata import EMPTY, Metadata, Value
from .status import Status

# -- events


class CallStarted(Struct, frozen=True):
    """A call begins; it may still have to wait for its session's first call and for a configuration.

    `path` is `/package.Service/Method`. `registered`: its messages are protobuf classes, so that the path is one of the
    program's methods and not a text from outside (A66). `session` is the number of its session in the channel.
    `metadata` is the caller's, without a session's cookie and the additions of filters.
    """

    path: str
    registered: bool = True
    session: int | None = None
    metadata: Metadata = EMPTY


class Pick(Struct, frozen=True):
    """A host was picked. `cluster` is the route's, `backend` the host's own: a leaf, if the route's is an aggregate.

    `address` is the host's; `delayed`: an earlier pick of this attempt had to wait. `authority` is the RPC's, if it is
    not the channel's (A81).
    """

    cluster: str
    backend: str
    address: str
    delayed: bool
    authority: str = ""


class Location(Struct, frozen=True):
    """A host's own cluster, never an aggregate, and its locality as A78 writes it; empty where unknown."""

    backend: str = ""
    locality: str = ""


NOWHERE = Location()


class SessionPick(Struct, frozen=True):
    """The result of a pick with a session cookie (A55): `hit` of its host, `wait` for it, or `fallback`.

    A fallback is a pick without the cookie, and `reason` says why: `no_cookie`, or the rule that the cookie's host did
    not meet (`lb/override_host/repin_reason.py`). `wanted` are the cookie's addresses.
    """

    result: str
    reason: str = ""
    wanted: tuple[str, ...] = ()


class SessionHostChanged(Struct, frozen=True):
    """A response began, and its host is new to the session; `before` is its last one, `reason` why it moved.

    A session has a host for each of its cookies. An empty `before`: the host is the first of the cookie.
    """

    cluster: str
    address: str
    before: str = ""
    reason: str = ""


class SessionChanged(Struct, frozen=True):
    """A session has its first host (`pinned`), has `moved`, or its host is `draining` or lost (`host_lost`).

    `session` is its number in the channel, `cookie` the name of the cookie that names `address` in `cluster`. `before`
    is the host that it left, `reason` the rule that the host did not meet (`lb/override_host/repin_reason.py`), and
    `change` the version of the resource that caused it, as in `EDS resource "cart" version 7`; each may be empty.
    """

    session: int
    kind: str
    cookie: str
    cluster: str
    address: str
    before: str = ""
    reason: str = ""
    change: str = ""


class XdsRequest(Struct, frozen=True):
    """A request to a control plane. `answers`: it is a NACK, if it has an `error`, or an ACK; else a new subscription.

    `names` are all subscribed names; in delta the newly subscribed ones, and `removed` the unsubscribed.
    """

    server: str
    type: str
    version: str
    nonce: str
    names: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    error: str = ""
    answers: bool = False


class XdsResponse(Struct, frozen=True):
    """A response of a control plane. `valid` and `invalid` are names of its resources, including unchanged ones.

    `type` is as in `envoy.config.cluster.v3.Cluster`. A resource whose name cannot be parsed is `invalid` with an empty
    name; `errors` are the validation errors.
    """

    server: str
    type: str
    version: str
    nonce: str
    valid: tuple[str, ...] = ()
    invalid: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class XdsResource(Struct, frozen=True):
    """The new state of a resource. `state` is a cache state of A78 and A88, or empty: the resource is not watched.

    "stale" is the state of one from the cache on disk, until a server answers. `cached`: an older version is in use.
    `authority` is None for old-style names (A47).
    """

    type: str
    name: str
    authority: str | None
    state: str
    cached: bool = False
    version: str = ""


class WrrUpdate(Struct, frozen=True):
    """An update of weighted_round_robin's weights (A58): those in use, 0 for an endpoint without one."""

    policy: str
    endpoints: tuple[float, ...]
    not_yet_usable: int
    stale: int
    fell_back: bool


class OutlierEvent(Struct, frozen=True):
    """Outlier detection found an endpoint (A50): `method` as in A91; `unenforced` is why it is not ejected, if so.

    `backend` is the endpoint's own cluster, never an aggregate.
    """

    policy: str
    addresses: tuple[str, ...]
    method: str
    unenforced: str = ""
    backend: str = ""


class CallMirrored(Struct, frozen=True):
    """A copy of a call to the cluster of a mirror policy is over, or was not made.

    `result` is `completed`, with the `status` that came back, or why it was not: `too_many`, `too_large`, `no_cluster`,
    `not_sent`, `timeout` or `call_ended`. `cluster` is empty if a header of the call names one that is unknown.
    """

    cluster: str
    result: str
    status: Status | None = None


# -- observers


class AttemptObserver:
    """An `AttemptObserver` observes one attempt of a call, from before its pick; `ended` comes once, and last."""

    __slots__ = ()

    def headers(self) -> Iterable[tuple[str, Value]]:
        """Return metadata to add to the request, such as a trace's context.

        It replaces the caller's metadata of the same names, and that of observers that were added earlier.
        """
        return ()

    def no_host(self, backend: str) -> None:
        """A pick found no host in the cluster `backend`: a leaf, if the route's cluster is an aggregate (A89).

        Of several such picks in a row for one cluster only the first is reported.
        """

    def delayed(self, why: str) -> None:
        """The pick has to wait for a host, or for one that works if the call waits for ready. At most once."""

    def picked(self, pick: Pick) -> None:
        """A host was picked; if it refuses the stream, another pick may follow."""

    def session_picked(self, pick: SessionPick) -> None:
        """The pick of an attempt with a session filter has a result; another one follows a `wait`."""

    def sent(self, size: int, wire_size: int) -> None:
        """A message was queued for sending; sizes are bytes, and `wire_size` is the compressed one."""

    def received(self, size: int, wire_size: int) -> None:
        """The caller has taken a message; sizes are bytes, and `wire_size` is the compressed one."""

    def ended(self, status: Status) -> None:
        """The attempt has ended."""


class CallObserver:
    """A `CallObserver` observes one call over all its attempts; `ended` comes once, after those of its attempts."""

    __slots__ = ()

    def resolution_delayed(self) -> None:
        """The call's wait for a configuration has ended (A72)."""

    def routed(self, cluster: str, hedged: bool) -> None:
        """Route and filters have chosen the cluster, perhaps an aggregate; if `hedged`, attempts may overlap (A6)."""

    def attempt(self, previous: int, transparent: bool) -> AttemptObserver | None:
        """An attempt begins; `previous` counts earlier ones, without those that no server can have seen."""
        return None

    def backing_off(self, seconds: float) -> None:
        """The next attempt begins after so many seconds."""

    def settled(self, place: SessionHostChanged) -> None:
        """The response has begun, and its host is new to the call's session."""

    def ended(self, status: Status) -> None:
        """The call has ended; one that its caller abandoned has the status CANCELLED."""


class Observer:
    """An `Observer` observes one channel: its calls, xDS client, connections and policies.

    With a shared xDS client (`open_xds_client`) the client's observers get the xDS events.
    """

    __slots__ = ()

    def call(self, call: CallStarted) -> CallObserver | None:
        """A call begins, in its caller's task and context; return its observer, or None."""
        return None

    def closed(self) -> None:
        """The channel or client has closed; no other event follows."""

    def session_opened(self, number: int) -> None:
        """A block of `channel.session()` has begun; `number` is its number in the channel."""

    def session_closed(self, number: int) -> None:
        """A block of `channel.session()` has ended."""

    def session_changed(self, changed: SessionChanged) -> None:
        """Something became of a session: it has a host, moved, or its host drains or is lost."""

    def mirrored(self, copy: CallMirrored) -> None:
        """A copy of a call is over, or was not made. No event of the call itself says that it was copied."""

    # -- the xDS client

    def xds_connected(self, server: str) -> None:
        """An ADS stream has begun; whether the server responds is not known yet."""

    def xds_failed(self, server: str, reason: str) -> None:
        """A connection failed, or a stream ended without a response (A57); the end of any other stream is no event."""

    def xds_disconnected(self, server: str) -> None:
        """The server is not used any more: a better one responds (A71), or nothing is watched there."""

    def xds_request_sent(self, request: XdsRequest) -> None:
        """A request was sent to a control plane: a subscription, an ACK or a NACK."""

    def xds_response_received(self, response: XdsResponse) -> None:
        """A response of a control plane has come, and was parsed."""

    def xds_resource(self, resource: XdsResource) -> None:
        """A resource has a new state."""

    # -- connections to hosts

    def connection_failed(self, address: str, status: Status) -> None:
        """A connection attempt failed; abandoned attempts are no event."""

    def connection_opened(self, address: str, security: str) -> None:
        """A connection was established; `security` is `none` or `privacy_and_integrity` (A94)."""

    def connection_closed(self, address: str, security: str, why: str) -> None:
        """A connection takes no new calls; `why` is a reason of A94: `GOAWAY NO_ERROR`, `connection reset`."""

    # -- policies

    def weights(self, weights: WrrUpdate) -> None:
        """Weighted round robin has new weights (A58)."""

    def outlier(self, outlier: OutlierEvent) -> None:
        """Outlier detection found an endpoint (A50)."""


class Locate(Protocol):
    """A synchronous function from an address to its location, in the cluster `backend`, or in any that has it."""

    def __call__(self, address: str, backend: str = "") -> Location: ...


@runtime_checkable
class Telemetry(Protocol):
    """A `Telemetry` makes an observer for each channel: the type of `open_channel(telemetry=...)`."""

    def observe(self, target: str, locate: Locate) -> Observer:
        """Return an observer for the channel with that target, in its canonical form."""
