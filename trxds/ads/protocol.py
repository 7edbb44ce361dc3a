"""The conversation with one xDS server, without a socket or a clock (A27, A46, A53; SPEC §7).

State of the world over one aggregated stream: for each type of resource the client says which
names it wants, the server sends what it has of them, and the client answers each response: it
accepts it (ACK: the new version) or refuses it (NACK: the last version it accepted, and why).

Three kinds of memory, by how long they last:

* `_Resource`, a subscribed name and what is known of it, lives while someone wants it;
* `_Subscription`, a type's names and its accepted version, lives as long as the client;
* `_Stream`, nonces, what was asked and what still has to be said, dies with the stream.

A shell drives it: `stream_opened`; then `next_request` until it is None, and `sent` for each that
went out; `received` for each response; `due` when `next_deadline` has come; `stream_ended`.
What comes back is what watchers should hear: states that differ from those they know.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from trxds.ads.bootstrap import Node, ServerConfig
from trxds.ads.response import Item, Raw, Reading, invalid
from trxds.ads.state import ResourceState
from trxds.ground.status import Status, StatusCode, unavailable
from trxds.resources.protos import DiscoveryRequest
from trxds.resources.types import RESOURCE_TYPES, Parsed, ResourceType

log = logging.getLogger("trxds.ads")

USER_AGENT_NAME = "trxds"
USER_AGENT_VERSION = "0.1.0"  # a test holds it to pyproject.toml
CLIENT_FEATURES = ("envoy.lb.does_not_support_overprovisioning", "xds.config.resource-in-sotw")
DOES_NOT_EXIST_AFTER = 15.0  # seconds from the request that asked for it

_NOTHING: Raw = ("", b"")

Key: TypeAlias = tuple[ResourceType, str]
Changes: TypeAlias = dict[Key, ResourceState]


@dataclass(slots=True, eq=False)
class _Resource:
    """What is known of one name. The state that watchers see is computed from it, whole, each time."""

    type: ResourceType
    name: str
    raw: Raw = _NOTHING  # what it last came as, good or bad
    parsed: Parsed | None = None  # and what that was parsed to
    value: object | None = None  # the last good one
    invalid: str | None = None  # what is wrong with the last update
    absent: str | None = None  # why it is known not to be there
    told: ResourceState | None = None

    @property
    def seen(self) -> bool:
        """It came at least once and has not been deleted since."""
        return self.value is not None or self.invalid is not None

    @property
    def awaited(self) -> bool:
        """Nothing usable came, and the server has not been given up on it."""
        return self.value is None and self.absent is None


@dataclass(slots=True, eq=False)
class _Subscription:
    """The names of one type, and the version that the server was last told we accepted."""

    version: str = ""
    resources: dict[str, _Resource] = field(default_factory=dict)
    unwanted: set[str] = field(default_factory=set)  # go when the next request is composed
    parsed: dict[Raw, Parsed] = field(default_factory=dict)  # by `_Resource.raw`

    def forget_unwanted(self) -> None:
        for name in self.unwanted:
            self.parsed.pop(self.resources.pop(name).raw, None)
        self.unwanted.clear()


@dataclass(slots=True, eq=False)
class _Stream:
    to_say: dict[ResourceType, None]  # types that may have something to say, in the order it came up
    introduced: bool = False  # the node goes with the first request only
    heard: bool = False  # the end of a stream that answered is no failure
    nonces: dict[ResourceType, str] = field(default_factory=dict)
    answers: dict[ResourceType, tuple[str, ...]] = field(default_factory=dict)  # errors; none: an ACK
    asking: frozenset[str] = frozenset()  # the names in the request that is being sent
    asked: dict[ResourceType, frozenset[str]] = field(default_factory=dict)
    deadlines: dict[_Resource, float] = field(default_factory=dict)  # all as long: the first is the earliest


class Conversation:
    """What to say to `server`, and what its answers mean for each resource subscribed."""

    def __init__(self, server: ServerConfig, node: Node) -> None:
        self._server = server
        self._node = node
        # In the order in which a new stream asks: LDS, RDS, CDS, EDS.
        self._subscriptions = {type: _Subscription() for type in RESOURCE_TYPES.values()}
        self._stream: _Stream | None = None
        self._failure: str | None = None  # why the server cannot be reached at present

    def __repr__(self) -> str:
        names = sum(len(s.resources) - len(s.unwanted) for s in self._subscriptions.values())
        return f"<Conversation {self._server.uri} {'open' if self._stream else 'closed'}, {names} resources>"

    # -- what watchers want

    @property
    def wanted(self) -> bool:
        """Anything is subscribed, so a stream has something to say."""
        return any(len(s.resources) > len(s.unwanted) for s in self._subscriptions.values())

    def subscribe(self, type: ResourceType, name: str) -> ResourceState | None:
        """Want a resource from now on; returns what is known of it already. Wanting it twice is once."""
        subscription = self._subscriptions[type]
        subscription.unwanted.discard(name)
        resource = subscription.resources.get(name)
        if resource is None:
            resource = subscription.resources[name] = _Resource(type, name)
            self._mention(type)
        resource.told = self._state(resource)
        return resource.told

    def unsubscribe(self, type: ResourceType, name: str) -> None:
        """Want it no longer. It is forgotten when the next request is composed: a watcher may drop
        a resource and take it again in one step, and the server shall not notice."""
        subscription = self._subscriptions[type]
        if name in subscription.resources:
            subscription.unwanted.add(name)
            self._mention(type)

    # -- what we say

    def stream_opened(self) -> None:
        """A stream begins: everything has to be asked anew, with the versions we have and no nonce."""
        self._stream = _Stream(to_say=dict.fromkeys(self._subscriptions))

    def next_request(self) -> DiscoveryRequest | None:
        """The next thing to say, or None. Whatever came up since the last one is in it."""
        stream = self._stream
        while stream is not None and stream.to_say:
            type = next(iter(stream.to_say))
            del stream.to_say[type]
            request = self._compose(type, stream)
            if request is not None:
                return request
        return None

    def sent(self, request: DiscoveryRequest, now: float) -> None:
        """A request went out. Only now the wait begins for what it asked the first time on this stream."""
        stream, type = self._stream, RESOURCE_TYPES[request.type_url]
        if stream is None:
            return
        before, stream.asked[type] = stream.asked.get(type, frozenset()), stream.asking
        resources = self._subscriptions[type].resources
        for name in stream.asking - before:
            if name in resources and resources[name].awaited:
                stream.deadlines[resources[name]] = now + DOES_NOT_EXIST_AFTER

    def _mention(self, type: ResourceType) -> None:
        if self._stream is not None:
            self._stream.to_say[type] = None

    def _compose(self, type: ResourceType, stream: _Stream) -> DiscoveryRequest | None:
        subscription = self._subscriptions[type]
        self._forget_unwanted(type)
        names = subscription.resources.keys()
        asked = stream.asked.get(type)
        if not names and asked is None:
            return None  # an empty list as a type's first request would mean: everything
        errors = stream.answers.pop(type, None)
        if errors is None and names == asked:
            return None
        stream.asking = frozenset(names)
        request = DiscoveryRequest(
            type_url=type.type_url,
            version_info=subscription.version,
            response_nonce=stream.nonces.get(type, ""),
            resource_names=names,
        )
        if not stream.introduced:
            stream.introduced = True
            _introduce(request, self._node)
        if errors:
            request.error_detail.code = StatusCode.INVALID_ARGUMENT
            request.error_detail.message = f"xDS response validation errors: [{'; '.join(errors)}]"
        return request

    def _forget_unwanted(self, type: ResourceType) -> None:
        subscription = self._subscriptions[type]
        if self._stream is not None:
            for name in subscription.unwanted:
                self._stream.deadlines.pop(subscription.resources[name], None)
        subscription.forget_unwanted()

    # -- what we hear

    def known(self, type: ResourceType) -> Mapping[Raw, Parsed]:
        """What the bytes of the resources we have were parsed to, so that they need not be again."""
        return self._subscriptions[type].parsed

    def received(self, reading: Reading) -> Changes:
        """Take what is good, keep the last good value of what is not, and owe the server an answer.

        What nobody asked for is ignored, but its errors are reported like all others.
        """
        stream, subscription, errors = self._stream, self._subscriptions[reading.type], reading.errors
        assert stream is not None, "a response without a stream"
        stream.heard = True
        stream.nonces[reading.type] = reading.nonce
        stream.answers[reading.type] = errors
        stream.to_say[reading.type] = None
        if not errors:
            subscription.version = reading.version
        touched = [resource for item in reading.items if (resource := self._take(item, subscription, stream))]
        if reading.type.full_state:
            touched += self._delete_missing(reading, subscription)
        healed, self._failure = self._failure, None
        return self._changes(self._everything() if healed else touched)

    def _take(self, item: Item, subscription: _Subscription, stream: _Stream) -> _Resource | None:
        """The resource of that name, if it is wanted and came as anything else than last time."""
        parsed = item.parsed
        resource = subscription.resources.get(parsed.name) if parsed.name is not None else None
        if resource is None:
            return None
        stream.deadlines.pop(resource, None)
        if parsed is resource.parsed:
            return None
        subscription.parsed.pop(resource.raw, None)
        subscription.parsed[item.raw] = parsed
        resource.raw, resource.parsed = item.raw, parsed
        resource.absent = None
        resource.invalid = f"invalid resource: {invalid(parsed.errors, resource.type)}" if parsed.errors else None
        if not parsed.errors:
            resource.value = parsed.value
        return resource

    def _delete_missing(self, reading: Reading, subscription: _Subscription) -> list[_Resource]:
        """LDS and CDS responses are complete, so what we had and is not in one has been deleted.

        A resource never seen is not: the response may answer an earlier request. Nor is anything
        when a name could not be read, since it may be that one.
        """
        names = {item.parsed.name for item in reading.items}
        if None in names:
            return []
        left_out = (subscription.resources[name] for name in subscription.resources.keys() - names)
        missing = [resource for resource in left_out if resource.seen]
        for resource in missing:
            self._delete(resource)
        return missing

    def _delete(self, resource: _Resource) -> None:
        if "ignore_resource_deletion" in self._server.features and resource.value is not None:  # A53
            log.warning("%s", self._text(resource, "deleted by the server, kept as ignore_resource_deletion says"))
            return
        self._give_up(resource, "does not exist, deleted by the server")

    def _give_up(self, resource: _Resource, reason: str) -> None:
        self._subscriptions[resource.type].parsed.pop(resource.raw, None)
        resource.raw, resource.parsed = _NOTHING, None
        resource.value = resource.invalid = None
        resource.absent = reason

    # -- what time tells

    @property
    def next_deadline(self) -> float:
        """When `due` has something to say; infinite if never."""
        deadlines = self._stream.deadlines if self._stream is not None else {}
        return next(iter(deadlines.values()), math.inf)

    def due(self, now: float) -> Changes:
        """The resources that the server did not send in time: they do not exist."""
        late: list[_Resource] = []
        while self._stream is not None and self.next_deadline <= now:
            resource = next(iter(self._stream.deadlines))
            del self._stream.deadlines[resource]
            self._give_up(resource, f"does not exist, asked {DOES_NOT_EXIST_AFTER:g} s ago")
            late.append(resource)
        return self._changes(late)

    def stream_ended(self, reason: str) -> Changes:
        """A stream that never answered is a failure for every watcher; the end of one that did is not."""
        stream, self._stream = self._stream, None
        for type in self._subscriptions:
            self._forget_unwanted(type)
        if stream is not None and stream.heard:
            return {}
        self._failure = f"cannot reach the xDS server: {reason}"
        return self._changes(self._everything())

    # -- what watchers hear

    def _everything(self) -> Iterable[_Resource]:
        return (resource for s in self._subscriptions.values() for resource in s.resources.values())

    def _changes(self, resources: Iterable[_Resource]) -> Changes:
        changes: Changes = {}
        for resource in resources:
            state = self._state(resource)
            if state is not None and _differs(state, resource.told):
                resource.told = state
                changes[resource.type, resource.name] = state
        return changes

    def _state(self, resource: _Resource) -> ResourceState | None:
        """What a watcher should know, or None while the server has still to answer.

        Without a value, what the server said goes before what the network did.
        """
        if resource.value is not None:
            trouble = self._failure or resource.invalid
            return ResourceState(resource.value, ambient=self._status(resource, trouble) if trouble else None)
        reason = resource.absent or resource.invalid or self._failure
        if reason is None:
            return None
        return ResourceState(error=self._status(resource, reason), absent=resource.absent is not None)

    def _status(self, resource: _Resource, reason: str) -> Status:
        return unavailable(self._text(resource, reason))

    def _text(self, resource: _Resource, reason: str) -> str:
        where = f'server {self._server.uri}, node "{self._node.id}"'
        return f'{resource.type.kind} resource "{resource.name}" ({where}): {reason}'


def _differs(state: ResourceState, told: ResourceState | None) -> bool:
    """Values are compared by identity: equal bytes have the same one, and comparing big ones takes long."""
    if told is None or state.value is not told.value:
        return True
    return (state.error, state.absent, state.ambient) != (told.error, told.absent, told.ambient)


def _introduce(request: DiscoveryRequest, node: Node) -> None:
    """Who we are, and which xDS features we have beyond the baseline."""
    to = request.node
    to.id, to.cluster = node.id, node.cluster
    to.locality.region, to.locality.zone = node.locality.region, node.locality.zone
    to.locality.sub_zone = node.locality.sub_zone
    to.metadata.update(node.metadata)
    to.user_agent_name, to.user_agent_version = USER_AGENT_NAME, USER_AGENT_VERSION
    to.client_features.extend(CLIENT_FEATURES)
