"""The shapes of the state stream's messages, which are encoded as JSON without change.

A viewer receives one snapshot, and after that numbered changes to it. A viewer that was too slow receives a snapshot in
place of the changes that it missed. So a reader keeps one rule: a snapshot replaces everything, changes are applied. A
section maps keys to flat rows; a change to null removes the row. Events are not state: a viewer that comes later does
not receive them.

Times are seconds since 1970. An unknown value is null, empty or left out, as each shape says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, final

Row: TypeAlias = Mapping[str, Any]
Section: TypeAlias = Mapping[str, Row]
State: TypeAlias = Mapping[str, Section]  # by the names of SECTIONS

SECTIONS = ("channels", "nodes", "endpoints", "connections", "resources", "sessions", "control_planes")
EVENTS = (
    "pick",
    "call_ended",
    "session",
    "ads",
    "config_applied",
    "per_second_stats",
    "per_second_calls",
    "missed",
)


@final
class Snapshot(TypedDict):
    """`number` counts the messages of this viewer, from 1."""

    number: int
    snapshot: State


class Change(TypedDict):
    section: str
    key: str
    value: Row | None


@final
class Changes(TypedDict):
    number: int
    changes: list[Change]
    events: list[Mapping[str, Any]]


Message: TypeAlias = Snapshot | Changes


# -- rows; `channel` is the key of a row of channels


class ChannelRow(TypedDict):
    """One channel. Its key is the target's name (`shop` of xds:///shop), and `shop#2` for the second of that name."""

    target: str
    state: str  # IDLE, CONNECTING, READY, TRANSIENT_FAILURE, SHUTDOWN
    calls: int  # begun, ever
    failed: int
    open: int  # under way
    error: str  # why there is no configuration, if there is none
    warnings: list[str]  # what is wrong though calls can be made: with the configuration, the control plane, hosts
    client: str  # the channel under whose key its xDS client is shown; empty without a control plane
    outages: list[str]  # the control planes that cannot be reached, since when and why


class NodeRow(TypedDict):
    """One policy of the tree. Its key is the channel's key and the node's path: `shop/cluster_manager/cart`."""

    channel: str
    path: str
    policy: str
    parent: str | None  # a key; null for the root
    state: str
    picks: int  # calls that began on the hosts that stand below it now
    children: list[str]  # keys
    says: str  # what the policy sees, in words
    warm: bool  # kept for the case that it is wanted again; gets no picks


class EndpointRow(TypedDict):
    """One endpoint of one cluster: `shop/cart/10.0.0.1:443`. Clusters of one channel may share an address."""

    channel: str
    address: str  # the first, if it has several
    cluster: str
    priority: int
    locality: str  # region/zone/sub_zone, as far as they are there
    health: str  # UNKNOWN, HEALTHY, DRAINING, as the control plane says; NOT_SERVING if the host says so (A17)
    state: str | None  # of the connection; null if nobody has wanted one yet
    weight: int
    ejected: bool  # by outlier detection
    sessions: int  # that are on it
    addresses: list[str]  # all of them
    fair_share: float  # of its cluster's sessions, from 0 to 1, if they were spread evenly
    security: str  # what TLS verifies its host by; empty without TLS
    hostname: str  # the endpoint's own, for `:authority` (A81) and server names (A101)
    proxy: str  # the address of the HTTP CONNECT proxy that leads to it (A86), or empty


class ConnectionRow(TypedDict):
    """One transport, to a host or to the control plane."""

    channel: str
    kind: str  # data, ads, lrs
    address: str
    state: str  # CONNECTING, READY, DRAINING
    since: float  # when it was connected
    streams: int  # open now
    calls: int  # all that began


class ControlPlaneRow(TypedDict):
    """The channel to one xDS server: `shop/ads/10.0.0.5:18000`. A client that channels share appears once."""

    channel: str
    kind: str  # ads, lrs
    server: str
    state: str  # IDLE, CONNECTING, READY, TRANSIENT_FAILURE; the last one also for the time until the next attempt
    since: float | None  # of the state; null if it was never another one
    error: str  # why the last stream ended, until the next one is open


class ResourceRow(TypedDict):
    """One xDS resource: `shop/CDS/cart`. The resources of a client that channels share appear once."""

    channel: str
    type: str  # LDS, RDS, CDS, EDS
    name: str
    state: str  # requested, does_not_exist, acked, nacked, received_error, timeout (A88), stale: from the cache
    version: str  # of what is in use; empty if nothing is
    since: float | None  # when it came to that state; null while nothing has come
    server: str  # the server that it is requested from
    error: str  # why it is not acked, or why its servers cannot be reached; or empty


# `change` is the version of the resource that caused the move, or empty.
Move = TypedDict("Move", {"time": float, "from": str, "to": str, "reason": str, "change": str})


class SessionRow(TypedDict):
    """One open `channel.session()`: `shop/3`. A session without a cookie is on no host yet."""

    channel: str
    host: str
    cluster: str
    since: float
    calls: int
    moves: int
    last_move: Move | None


# -- events


class Pick(TypedDict):
    """An attempt of a call has a host, or will have none. The `call_ended` event has the same number as `call`."""

    kind: Literal["pick"]
    time: float
    channel: str
    call: int
    method: str
    cluster: str
    host: str  # empty if there is none
    why: str  # session, balanced, or what is wrong
    session: str | None  # the key of a session
    metadata: Mapping[str, str]  # values are … unless the viewer may see them, and base64 for -bin keys


class CallEnded(TypedDict):
    """A call has ended."""

    kind: Literal["call_ended"]
    time: float
    channel: str
    call: int
    method: str
    cluster: str
    host: str
    session: str | None
    status: str  # OK, UNAVAILABLE, ...
    message: str
    seconds: float


class SessionEvent(TypedDict):
    """A session was opened or closed, got its first host, moved, or its host is draining or lost."""

    kind: Literal["session"]
    time: float
    channel: str
    session: str  # its key
    event: Literal["opened", "pinned", "moved", "draining", "host_lost", "closed"]
    cookie: str  # the name of the cookie that names the host; this and the rest are empty where they do not apply
    cluster: str
    host: str
    before: str  # the host that it left
    reason: str
    change: str  # the version of the resource that caused it


class AdsMessage(TypedDict):
    """A message to or from a control plane."""

    kind: Literal["ads"]
    time: float
    channel: str
    server: str
    direction: Literal["sent", "received"]
    type: str
    version: str
    nonce: str
    resources: list[str]
    answer: Literal["", "ACK", "NACK"]  # of what was sent
    error: str


class ConfigApplied(TypedDict):
    """A configuration is in force."""

    kind: Literal["config_applied"]
    time: float
    channel: str
    text: str


class PerSecondStats(TypedDict):
    """One channel's calls that ended in one second; a second without any is left out. p50 and p99 are seconds."""

    kind: Literal["per_second_stats"]
    time: float
    channel: str
    requests: int
    errors: Mapping[str, int]
    p50: float
    p99: float


class PerSecondCalls(TypedDict):
    """One channel's calls of a method to a host that ended in one second; where there were none, nothing.

    `host` and `cluster` are empty for calls that had no host. With more than 500 pairs of method and host in a second
    the calls of further ones are together, with an empty method.
    """

    kind: Literal["per_second_calls"]
    time: float
    channel: str
    method: str
    cluster: str
    host: str
    requests: int
    errors: Mapping[str, int]  # by status
    times: Mapping[str, int]  # the number of calls by an upper bound of their seconds; bounds are 19 % apart


class MissedEvents(TypedDict):
    """The number of events that did not fit into this message."""

    kind: Literal["missed"]
    count: int


class StreamOptions(TypedDict):
    """The choice of a subscriber, by `states.subscribe(...)` or the query of GET /state. The default is everything."""

    sections: NotRequired[str]  # names with commas between, or none
    events: NotRequired[str]
    once: NotRequired[str]  # "1": a snapshot and no more
    metadata: NotRequired[str]  # "1": values too, if the opener of the stream allows it
