"""What the state stream says: the shapes of its messages, which are JSON as they stand.

A viewer gets one snapshot, and from then on changes to it, each with the number after the one before. A viewer who
was too slow finds another snapshot in place of what it has missed, so whoever reads keeps one rule: a snapshot
replaces everything, changes are applied. A section is a mapping of key to a flat row; a change to null takes the
row away. Events are not state: who was not there when they happened has missed them.

Times are seconds of the wall clock since 1970. What nobody knows is null, an empty text or not there, as said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, final

Row: TypeAlias = Mapping[str, Any]
Section: TypeAlias = Mapping[str, Row]
State: TypeAlias = Mapping[str, Section]  # by the names of SECTIONS

SECTIONS = ("channels", "nodes", "endpoints", "connections", "resources", "sessions")
EVENTS = ("pick", "done", "ads", "mark", "second", "missed")


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
    """Its key is the target's name (`shop` of xds:///shop), and `shop#2` for the second one of that name."""

    target: str
    state: str  # IDLE, CONNECTING, READY, TRANSIENT_FAILURE, SHUTDOWN
    calls: int  # begun, ever
    failed: int
    open: int  # under way
    error: str  # why there is no configuration, if there is none
    warnings: list[str]  # what is wrong with the one in force, though calls can be made by it


class NodeRow(TypedDict):
    """One policy of the tree. Its key is the channel's and its path: `shop/root/cart/cluster`."""

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
    health: str  # UNKNOWN, HEALTHY, DRAINING, as the control plane says
    state: str | None  # of the connection; null if nobody has wanted one yet
    weight: int
    ejected: bool  # by outlier detection
    sessions: int  # that are on it


class ConnectionRow(TypedDict):
    """One transport, to a host or to the control plane."""

    channel: str
    kind: str  # data, ads, lrs
    address: str
    state: str  # CONNECTING, READY, DRAINING
    since: float  # when it was connected
    streams: int  # open now
    calls: int  # all that began


class ResourceRow(TypedDict):
    """What is known of an xDS resource: `shop/CDS/cart`. A client that channels share is told of once."""

    channel: str
    type: str  # LDS, RDS, CDS, EDS
    name: str
    state: str  # requested, does_not_exist, acked, nacked, received_error, timeout (A88)
    version: str  # of what is in use; empty if nothing is
    since: float | None  # when it came to that state; null while nothing has come
    server: str  # who is asked for it
    error: str  # why it is not acked, or empty


Move = TypedDict("Move", {"time": float, "from": str, "to": str, "reason": str})


class SessionRow(TypedDict):
    """One `channel.session()` that is open: `shop/3`. Who has no cookie yet is on no host."""

    channel: str
    host: str
    cluster: str
    since: float
    calls: int
    moves: int
    last_move: Move | None


# -- events


class Pick(TypedDict):
    """A call's attempt has a host, or will have none. `call` is a number by which `done` refers to it."""

    kind: Literal["pick"]
    time: float
    channel: str
    call: int
    method: str
    cluster: str
    host: str  # empty if there is none
    why: str  # session, balanced, or what is wrong
    session: str | None  # the key of a session
    metadata: Mapping[str, str]  # values are … unless the viewer may see them


class Done(TypedDict):
    """A call is over."""

    kind: Literal["done"]
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


class Ads(TypedDict):
    """A line of the talk with a control plane."""

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


class Mark(TypedDict):
    """A configuration came into force."""

    kind: Literal["mark"]
    time: float
    channel: str
    text: str


class Second(TypedDict):
    """One second of one channel's calls that ended in it; seconds without one are left out. p50, p99 in seconds."""

    kind: Literal["second"]
    time: float
    channel: str
    requests: int
    errors: Mapping[str, int]
    p50: float
    p99: float


class Missed(TypedDict):
    """So many events did not fit into this message."""

    kind: Literal["missed"]
    count: int


class Question(TypedDict):
    """What a subscriber asks for, by `states.subscribe(...)` or the query of GET /state; everything by default."""

    sections: NotRequired[str]  # names with commas between, or none
    events: NotRequired[str]
    once: NotRequired[str]  # "1": a snapshot and no more
    metadata: NotRequired[str]  # "1": values too, if whoever opened the stream allows it
