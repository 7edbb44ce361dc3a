"""The conversation with one xDS server, without a socket or a clock (A27, A46, A53, A88).

For each type of resource the client says which names it wants, the server sends what it has of
them, and the client answers each response: it accepts it (ACK) or refuses it (NACK: the last
version it accepted, and why). How that is said is the dialect's.

Three kinds of memory, by how long they last:

* `Resource`, a name and what is known of it, is shared with the other servers of its authority;
* `Subscription`, a type's names and what this server gave for them, lives as long as this;
* `_Stream`, with a `ResourceTypeState` for each type, what was asked and has to be answered, dies with the stream.

A shell drives it: `stream_opened`; then `next_request` until it is None, and `sent` for each that went out; `read` and
`received` for each response; `expire_timers` when `next_deadline` has come, and `next_request` again
after either; `stream_ended`. What comes back is the resources of which something new is known.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trxds.core.clock import TimeOfDay, since_1970
from trxds.resources.cooperative_parse import Slices
from trxds.resources.protos import DecodeError
from trxds.resources.types import RESOURCE_TYPES, ParseContext, Parsed, ResourceType

from .bootstrap import Node, ServerConfig
from .discovery_request import DiscoveryRequestParams, ProtocolVariant, set_nack, set_node
from .discovery_response import ParsedResponse, Raw, UnknownResponse, known_type
from .resource import CacheState, Resource
from .resource_error_policy import ResourceErrorPolicy
from .resource_timers import ResourceTimers
from .resource_type_state import ResourceTypeState
from .resource_updater import ResourceUpdater
from .sotw import SotwProtocol
from .subscription import Subscription

log = logging.getLogger("trxds.xds")


@dataclass(slots=True, eq=False)
class _Stream:
    types: dict[ResourceType, ResourceTypeState]
    pending_types: dict[ResourceType, None]  # types that may have something to say, in the order it came up
    waiting: dict[ResourceType, float] = field(default_factory=dict)  # types whose next NACK has to wait, until when
    introduced: bool = False  # the node goes with the first request only
    received_response: bool = False  # the end of a stream that answered is no failure
    timers: ResourceTimers = field(default_factory=ResourceTimers)

    @property
    def next_deadline(self) -> float:
        """When `expire_timers` has something to say; infinite if never."""
        return min(self.timers.next_deadline, *self.waiting.values(), math.inf)

    def expire_timers(self, now: float) -> list[Resource]:
        """Return the resources whose time is over; types whose NACK has waited long enough may say it."""
        for type in [type for type, when in self.waiting.items() if when <= now]:
            del self.waiting[type]
            self.pending_types[type] = None
        return self.timers.expire(now)

    def follow_up(self, type: ResourceType, *, said: bool) -> None:
        """What has more to say is asked again: when it has been said, or when the NACK that waits may go."""
        state = self.types[type]
        self.waiting.pop(type, None)
        if said and state.has_more:
            self.pending_types[type] = None
        elif state.next_due < math.inf:
            self.waiting[type] = state.next_due


class AdsStreamState:
    """What to say to `server`, and what its answers mean for each resource subscribed.

    `failure` is why it cannot be reached at present, and `failing_since` the time of day since when; `answers` is
    that it did, the last time it was tried. `time_of_day` is asked only for what happens just then.
    """

    def __init__(
        self,
        server: ServerConfig,
        node: Node,
        dialect: ProtocolVariant | None = None,
        data_errors: ResourceErrorPolicy | None = None,
        time_of_day: TimeOfDay = since_1970,
    ) -> None:
        self.server = server
        self.dialect: ProtocolVariant = dialect or SotwProtocol()
        self.failure: str | None = None
        self.failing_since = ""
        self.answers = False
        self._node = node
        self._time_of_day = time_of_day
        self._updater = ResourceUpdater(server.uri, data_errors or ResourceErrorPolicy(), time_of_day)
        # In the order in which a new stream asks: LDS, RDS, CDS, EDS.
        self._subscriptions = {type: Subscription() for type in RESOURCE_TYPES.values()}
        self._stream: _Stream | None = None

    def __repr__(self) -> str:
        names = sum(len(s.wanted) for s in self._subscriptions.values())
        return f"<Conversation {self.server.uri} {'open' if self._stream else 'closed'}, {names} resources>"

    @property
    def connected(self) -> bool:
        """There is a stream."""
        return self._stream is not None

    # -- what watchers want

    @property
    def wanted(self) -> bool:
        """Anything is subscribed, so a stream has something to say."""
        return any(len(s.resources) > len(s.unwanted) for s in self._subscriptions.values())

    def subscribe(self, resource: Resource) -> None:
        """Want a resource from now on. Wanting it twice is once."""
        subscription = self._subscriptions[resource.type]
        subscription.unwanted.discard(resource.name)
        if resource.name not in subscription.resources:
            subscription.resources[resource.name] = resource
            resource.server_refcount += 1
        self._mark_dirty(resource.type)

    def unsubscribe(self, resource: Resource) -> None:
        """Want it no longer. It is kept until the server knows, for a watcher that comes back before that. What other
        servers are asked for need not be kept here."""
        subscription = self._subscriptions[resource.type]
        if resource.name in subscription.resources:
            subscription.unwanted.add(resource.name)
            if resource.wanted or (self._stream is None and resource.server_refcount > 1):
                self._forget(resource)
            self._mark_dirty(resource.type)

    def forget_versions(self) -> None:
        """Another server may replace what this one gave, so it has to give everything again."""
        for subscription in self._subscriptions.values():
            subscription.version = ""
            subscription.last_sent.clear()
            subscription.parsed.clear()

    # -- what we say

    def stream_opened(self) -> None:
        """A stream begins: everything has to be asked anew, with the versions we have and no nonce."""
        types = {type: ResourceTypeState(cumulative=self.dialect.cumulative) for type in self._subscriptions}
        self._stream = _Stream(types, pending_types=dict.fromkeys(types))

    def next_request(self, now: float) -> Any | None:
        """The next thing to say, or None. Whatever came up since the last one is in it."""
        stream = self._stream
        while stream is not None and stream.pending_types:
            type = next(iter(stream.pending_types))
            del stream.pending_types[type]
            request = self._build_request(type, stream, now)
            if request is not None:
                return request
        return None

    def sent(self, request: Any, now: float) -> None:
        """A request went out. Only now the wait begins for what it asked the first time on this stream, and what
        it left out may be forgotten."""
        stream, type = self._stream, RESOURCE_TYPES[request.type_url]
        if stream is None:
            return
        subscription, state = self._subscriptions[type], stream.types[type]
        before = state.requested or frozenset[str]()
        for name in state.sent():
            if name in subscription.resources and name not in subscription.unwanted:
                subscription.resources[name].request_again()
        self._forget_unwanted(type)
        requested = state.requested or frozenset[str]()
        for name in requested - before if requested is not before else ():
            resource = subscription.resources.get(name)
            # A57: the time runs from the request and not from the watch, and not for what another server gave already.
            if resource is not None and resource.awaited:
                stream.timers.start(resource, now + self._updater.rules.wait)

    def _mark_dirty(self, type: ResourceType) -> None:
        if self._stream is not None:
            self._stream.pending_types[type] = None

    def _build_request(self, type: ResourceType, stream: _Stream, now: float) -> Any | None:
        self._forget_unwanted(type)
        subscription, state = self._subscriptions[type], stream.types[type]
        asked = state.requested
        following = state.next_request(subscription.wanted, now)
        stream.follow_up(type, said=following is not None)
        if following is None:
            return None
        ack = following.ack
        version, nonce = (ack.version, ack.nonce) if ack else (subscription.version, state.nonce)
        # A delta server that is told what we have sends what is new. It may be told with a stream's first request only.
        versions = subscription.versions() if asked is None else {}
        ask = DiscoveryRequestParams(type, following.names, asked, version, versions, nonce, answers=ack is not None)
        request = self.dialect.request(ask)
        if not stream.introduced:
            stream.introduced = True
            set_node(request, self._node)
        if ack and ack.errors:
            set_nack(request, ack.errors)
        return request

    def _forget_unwanted(self, type: ResourceType) -> None:
        """Forget what nobody wants, once the server knows."""
        subscription, stream = self._subscriptions[type], self._stream
        for name in tuple(subscription.unwanted):
            if stream is None or stream.types[type].may_forget(name):
                self._forget(subscription.resources[name])

    def _forget(self, resource: Resource) -> None:
        type, subscription = resource.type, self._subscriptions[resource.type]
        subscription.unwanted.discard(resource.name)
        del subscription.resources[resource.name]
        subscription.forget(resource.name)
        resource.server_refcount -= 1
        if not resource.wanted and not resource.server_refcount:
            if resource.ignored_deletion:
                text = '%s resource "%s", which the server deleted, is wanted no longer'  # A53
                log.info(text, type.kind, resource.name)
            resource.forget()
        if self._stream is not None:
            self._stream.timers.stop(resource)
            self._stream.types[type].drop(resource.name)

    # -- what we hear

    def known(self, type: ResourceType) -> Mapping[Raw, Parsed]:
        """What the bytes of the resources we have were parsed to, so that they need not be again."""
        return self._subscriptions[type].parsed

    def read(self, message: bytes, context: ParseContext) -> Slices[ParsedResponse | UnknownResponse]:
        """What a message of the stream says, for `received`."""
        try:
            response = self.dialect.response.FromString(message)
        except DecodeError:
            return UnknownResponse(f"{len(message)} bytes that are no {self.dialect.response.DESCRIPTOR.name}")
        type = known_type(response)
        if type is None:
            return UnknownResponse(f"a response of unknown type {response.type_url!r}")
        return (yield from self.dialect.read(response, type, self.known(type), context))

    def received(self, reading: ParsedResponse, now: float) -> list[Resource]:
        """Take what is good, keep or drop what we had of what is not, and owe the server an answer.

        What nobody asked for is ignored, but its errors are reported like all others.
        """
        stream, subscription = self._stream, self._subscriptions[reading.type]
        if stream is None:
            return []  # closed while it was being read
        stream.received_response = True
        # A request names the last version that was accepted whole: a NACK repeats the one before (xDS protocol), though
        # the good resources of a refused response are taken all the same (A46).
        if not reading.errors:
            subscription.version = reading.version
        gone = self._gone(reading, stream.types[reading.type])
        stream.types[reading.type].received(reading, subscription.version, subscription.resources, now)
        self._mark_dirty(reading.type)
        # One that is refused counts as well: the server can be reached, so there is no reason to fall back (A71).
        self.failure, self.answers = None, True
        came = self._updater.came(reading.version, now)
        touched = []
        for item in reading.items:
            resource = self._heard_of(reading.type, item.parsed.name)
            if resource is not None and self._updater.accept(resource, item, came, subscription):
                touched.append(resource)
        for failed in reading.failed:
            resource = self._heard_of(reading.type, failed.name)
            if resource is not None:
                subscription.forget(resource.name)
                self._updater.fail(resource, failed, came)
                touched.append(resource)
        for resource in gone:
            self._heard_of(reading.type, resource.name)
            subscription.forget(resource.name)
            self._updater.delete(resource, came)
            touched.append(resource)
        return [resource for resource in touched if resource.wanted]

    def _heard_of(self, type: ResourceType, name: str | None) -> Resource | None:
        """The resource of that name, if anybody wants it. It is waited for no longer."""
        resource = self._subscriptions[type].resources.get(name) if name is not None else None
        if resource is not None and self._stream is not None:
            self._stream.timers.stop(resource)
        return resource

    def _gone(self, reading: ParsedResponse, state: ResourceTypeState) -> list[Resource]:
        """What the server says is gone, or had and leaves out of a response that is complete.

        A resource never seen may be left out: the response may answer an earlier request.
        """
        resources = self._subscriptions[reading.type].resources
        gone = [resources[name] for name in reading.removed if name in resources]
        if reading.is_complete:
            for name in resources.keys() - reading.names:
                was_held = state.lost(name)
                if not state.has_requested(name):
                    if was_held:  # it may be left out because our last request did not name it
                        resources[name].request_again()
                elif resources[name].seen:
                    gone.append(resources[name])
        return [resource for resource in gone if resource.state is not CacheState.DOES_NOT_EXIST]

    @property
    def unsent(self) -> int:
        """Bytes of the answers that wait to be sent, about. In state of the world there are never many."""
        if self.dialect.cumulative or self._stream is None:
            return 0
        return sum(state.unsent for state in self._stream.types.values())

    # -- what time tells

    @property
    def has_pending_requests(self) -> bool:
        """There may be a next request."""
        return self._stream is not None and bool(self._stream.pending_types)

    @property
    def next_deadline(self) -> float:
        """When `expire_timers` has something to say; infinite if never."""
        return self._stream.next_deadline if self._stream is not None else math.inf

    def expire_timers(self, now: float) -> list[Resource]:
        """The resources that did not come in time, neither from here nor from elsewhere."""
        late = [each for each in self._stream.expire_timers(now) if each.awaited] if self._stream is not None else []
        for resource in late:
            self._subscriptions[resource.type].forget(resource.name)
            self._updater.on_resource_timeout(resource, now)
        return [resource for resource in late if resource.wanted]

    # -- the end

    def stream_ended(self, reason: str, now: float) -> None:
        """A stream that never answered is a failure; the end of one that did is not."""
        stream, self._stream = self._stream, None
        self._drop_unsubscribed()
        # A57: a stream that ends after an answer is a reconnect, and watchers hear nothing of it.
        if stream is None or not stream.received_response:
            if self.failure is None:
                self.failing_since = self._time_of_day(now)
            self.failure, self.answers = reason, False

    def close(self) -> None:
        """This server is asked no longer."""
        self._stream = None
        for subscription in self._subscriptions.values():
            subscription.unwanted.update(subscription.resources)
        self._drop_unsubscribed()

    def _drop_unsubscribed(self) -> None:
        for type in self._subscriptions:
            self._forget_unwanted(type)
