"""The ADS protocol with one xDS server, without a socket or a clock (A27, A46, A53, A88).

For each type of resource the client sends the names that it wants, the server sends what it has of them, and the
client answers each response: it accepts it (ACK) or rejects it (NACK, with the errors and the last version that it
accepted). `ProtocolVariant` decides the form of the messages.

There are three kinds of state, by how long they live:

* `Resource` is a name and what is known of it. The other servers of its authority share it.
* `Subscription` is one type's names and what this server sent for them. It outlives the streams.
* `AdsCall` is one stream, with a `ResourceTypeState` for each type: requested names and pending ACKs.

`AdsStream` drives it: it calls `stream_opened`; then `next_request` until it is None, and `sent` for each request that
went out; `read` and `received` for each response; `expire_timers` when `next_deadline` has come, and `next_request`
again after either; `stream_ended`. These return the resources of which something new is known. It calls `become_idle`
when it opens no stream because nothing is wanted.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

from trxds.core.clock import TimeOfDay, since_1970
from trxds.resources.cooperative_parse import Slices
from trxds.resources.extension import parse
from trxds.resources.types import RESOURCE_TYPES, ParseContext, Parsed, ResourceType

from .ads_call import AdsCall
from .bootstrap import Node, ServerConfig
from .discovery_request import DiscoveryRequestParams, ProtocolVariant, set_nack, set_node
from .discovery_response import ParsedResponse, Raw, UnknownResponse
from .resource import CacheState, Resource
from .resource_error_policy import ResourceErrorPolicy
from .resource_type_state import ResourceTypeState
from .resource_updater import ResourceUpdater, Subscription
from .sotw import SotwProtocol

log = logging.getLogger("trxds.xds")


class AdsStreamState:
    """The state of the ADS protocol with `server`: the next requests, and the effect of responses on resources.

    `failure` is the reason why the server cannot be reached at present, and `failing_since` the time of day at which
    that began. `is_answering` is True while the last try got a response. `time_of_day` converts only the present time.
    """

    def __init__(
        self,
        server: ServerConfig,
        node: Node,
        protocol: ProtocolVariant | None = None,
        error_policy: ResourceErrorPolicy | None = None,
        time_of_day: TimeOfDay = since_1970,
    ) -> None:
        self.server = server
        self.protocol: ProtocolVariant = protocol or SotwProtocol()
        self.failure: str | None = None
        self.failing_since = ""
        self.is_answering = False
        self._node = node
        self._time_of_day = time_of_day
        self._updater = ResourceUpdater(server.uri, error_policy or ResourceErrorPolicy(), time_of_day)
        # In the order of the first requests on a stream: LDS, RDS, CDS, EDS.
        self._subscriptions = {type: Subscription() for type in RESOURCE_TYPES.values()}
        self._stream: AdsCall | None = None

    def __repr__(self) -> str:
        names = sum(len(s.wanted) for s in self._subscriptions.values())
        return f"<AdsStreamState {self.server.uri} {'open' if self._stream else 'closed'}, {names} resources>"

    @property
    def is_connected(self) -> bool:
        """Return whether there is a stream."""
        return self._stream is not None

    # -- subscriptions

    @property
    def has_subscriptions(self) -> bool:
        """Return whether anything is subscribed, so that a stream has something to request."""
        return any(len(s.resources) > len(s.unwanted) for s in self._subscriptions.values())

    def subscribe(self, resource: Resource) -> None:
        """Request a resource from now on. A second call for the same resource changes nothing."""
        subscription = self._subscriptions[resource.type]
        subscription.unwanted.discard(resource.name)
        if resource.name not in subscription.resources:
            subscription.resources[resource.name] = resource
            resource.server_refcount += 1
        self._mark_dirty(resource.type)

    def unsubscribe(self, resource: Resource) -> None:
        """Request a resource no longer.

        Its state is kept until the server knows, for a watcher that comes back before that. A resource that is
        requested from other servers too, or of which nothing is known, need not be kept here.
        """
        subscription = self._subscriptions[resource.type]
        if resource.name in subscription.resources:
            subscription.unwanted.add(resource.name)
            is_kept_elsewhere = resource.server_refcount > 1
            is_unknown = resource.state is CacheState.REQUESTED and resource.value is None
            if resource.wanted or (self._stream is None and (is_kept_elsewhere or is_unknown)):
                self._forget(resource)
            self._mark_dirty(resource.type)

    def forget_versions(self) -> None:
        """Forget all versions: another server may replace what this one sent, so it has to send everything again."""
        for type, subscription in self._subscriptions.items():
            subscription.version = ""
            subscription.last_sent.clear()
            subscription.parsed.clear()
            # The first requests of a stream that has not answered yet told the versions. A delta server has to send
            # whatever is subscribed again without one (DeltaDiscoveryRequest.resource_names_subscribe).
            if self._stream is not None:
                self._stream.types[type].request_again(subscription.wanted)
                self._mark_dirty(type)

    # -- requests

    def stream_opened(self) -> None:
        """Begin a stream: request everything anew, with the versions in the cache and no nonce."""
        types = {type: ResourceTypeState(cumulative=self.protocol.cumulative) for type in self._subscriptions}
        self._stream = AdsCall(types, pending_types=dict.fromkeys(types))

    def next_request(self, now: float) -> Any | None:
        """Return the next request, with every change since the last one, or None."""
        stream = self._stream
        while stream is not None and stream.pending_types:
            # In the order in which changes came up, so that no busy type delays the others for ever.
            type = next(iter(stream.pending_types))
            del stream.pending_types[type]
            request = self._build_request(type, stream, now)
            if request is not None:
                return request
        return None

    def sent(self, request: Any, now: float) -> None:
        """Note that a request went out.

        Only now its resource timers start, and resources that it left out may be forgotten.
        """
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
            # A57: the timer runs from the request and not from the watch; a resource from another server needs none. A
            # request that names the resource again does not extend its time.
            if resource is not None and resource.awaited:
                stream.resource_timers.setdefault(resource, now + self._updater.rules.wait)
            elif resource is not None and state.nonce and name not in subscription.last_sent:
                stream.just_requested.add(resource)

    def _mark_dirty(self, type: ResourceType) -> None:
        if self._stream is not None:
            self._stream.pending_types[type] = None

    def _build_request(self, type: ResourceType, stream: AdsCall, now: float) -> Any | None:
        self._forget_unwanted(type)
        subscription, state = self._subscriptions[type], stream.types[type]
        requested = state.requested
        next_request = state.next_request(subscription.wanted, now)
        stream.schedule_next(type, sent=next_request is not None)
        if next_request is None:
            return None
        ack = next_request.ack
        version, nonce = (ack.version, ack.nonce) if ack else (subscription.version, state.nonce)
        # A delta server that gets the versions of cached resources sends only newer ones. A stream's first request of
        # the type alone may have them.
        versions = subscription.versions() if requested is None else {}
        params = DiscoveryRequestParams(
            type, next_request.names, requested, version, versions, nonce, is_answer=ack is not None
        )
        request = self.protocol.request(params)
        # xDS protocol: only a stream's first request needs the node.
        if not stream.node_sent:
            stream.node_sent = True
            set_node(request, self._node)
        if ack and ack.errors:
            set_nack(request, ack.errors)
        return request

    def _forget_unwanted(self, *types: ResourceType) -> None:
        """Forget resources of these types that nobody watches, once the server knows."""
        stream = self._stream
        for type in types:
            subscription = self._subscriptions[type]
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
            # A53 wants a log when an ignored deletion ends, either way.
            if resource.ignored_deletion:
                text = '%s resource "%s", which the server deleted, is wanted no longer'  # A53
                log.info(text, type.kind, resource.name)
            resource.forget()
        if self._stream is not None:
            self._stream.resource_timers.pop(resource, None)
            self._stream.types[type].drop(resource.name)

    # -- responses

    def parsed_resources(self, type: ResourceType) -> Mapping[Raw, Parsed]:
        """Return the parsed form of resources by their bytes, so that equal bytes need not be parsed again."""
        return self._subscriptions[type].parsed

    def read(self, message: bytes, context: ParseContext) -> Slices[ParsedResponse | UnknownResponse]:
        """Parse a message of the stream in slices; the result is for `received`."""
        response = parse(self.protocol.response, message)
        if response is None:
            return UnknownResponse(f"{len(message)} bytes that are no {self.protocol.response.DESCRIPTOR.name}")
        type = RESOURCE_TYPES.get(response.type_url)
        if type is None:
            return UnknownResponse(f"a response of unknown type {response.type_url!r}")
        return (yield from self.protocol.read(response, type, self.parsed_resources(type), context))

    def received(self, response: ParsedResponse, now: float) -> list[Resource]:
        """Apply a response, queue its ACK or NACK, and return the wanted resources that changed.

        Good resources are accepted even if others are rejected. Resources that nobody requested are ignored, but their
        errors are reported in the NACK.
        """
        stream, subscription = self._stream, self._subscriptions[response.type]
        if stream is None:
            return []  # the stream was closed while this response was parsed
        stream.received_response = True
        # A request has the last version that was accepted as a whole: a NACK repeats the one before (xDS protocol). The
        # good resources of a rejected response are used all the same (A46).
        if not response.errors:
            subscription.version = response.version
        deleted = self._find_deleted(response, stream)
        if stream.just_requested:
            stream.just_requested = {each for each in stream.just_requested if each.type is not response.type}
        stream.types[response.type].received(response, subscription.version, subscription.resources, now)
        self._mark_dirty(response.type)
        # A rejected response counts too: the server can be reached, so there is no reason to fall back (A71).
        self.failure, self.is_answering = None, True
        metadata = self._updater.new_metadata(response.version, now)
        touched = []
        for item in response.items:
            resource = self._note_arrival(response.type, item.parsed.name)
            if resource is not None and self._updater.accept(resource, item, metadata, subscription):
                touched.append(resource)
        for failed in response.failed:
            resource = self._note_arrival(response.type, failed.name)
            if resource is not None:
                # Its version goes too, so that a delta server sends the resource again on the next stream.
                subscription.forget(resource.name)
                self._updater.fail(resource, failed, metadata)
                touched.append(resource)
        for resource in deleted:
            self._note_arrival(response.type, resource.name)
            subscription.forget(resource.name)
            self._updater.delete(resource, metadata)
            touched.append(resource)
        # An unwatched resource is kept up to date for a watcher that comes back, but nobody needs to know.
        return [resource for resource in touched if resource.wanted]

    def _note_arrival(self, type: ResourceType, name: str | None) -> Resource | None:
        """Return the resource of that name, if it is subscribed, and stop its timer."""
        resource = self._subscriptions[type].resources.get(name) if name is not None else None
        if resource is not None and self._stream is not None:
            self._stream.resource_timers.pop(resource, None)
        return resource

    def _find_deleted(self, response: ParsedResponse, stream: AdsCall) -> list[Resource]:
        """Return the resources that the response deletes, by name or by leaving them out of a complete response.

        A resource that never came from this server may be left out, though another server sent it: the response may
        answer an earlier request.
        """
        resources, state = self._subscriptions[response.type].resources, stream.types[response.type]
        deleted = [resources[name] for name in response.removed if name in resources]
        if response.is_complete:
            names = response.names
            # In the order of the subscriptions, which is the same in each process; a set's is not.
            for name in [name for name in resources if name not in names]:
                was_held = state.note_left_out(name)
                if not state.has_requested(name):
                    if was_held:  # it may be left out because the last request did not name it
                        resources[name].request_again()
                elif resources[name].has_arrived and resources[name] not in stream.just_requested:
                    deleted.append(resources[name])
        # A repeated deletion is no news; watchers have had the first.
        return [resource for resource in deleted if resource.state is not CacheState.DOES_NOT_EXIST]

    @property
    def unsent_bytes(self) -> int:
        """Return roughly the bytes of pending ACKs and NACKs. In state of the world there are never many."""
        if self.protocol.cumulative or self._stream is None:
            return 0
        return self._stream.unsent_bytes

    # -- timers

    @property
    def has_pending_requests(self) -> bool:
        """Return whether `next_request` may have a request."""
        return self._stream is not None and bool(self._stream.pending_types)

    @property
    def next_deadline(self) -> float:
        """Return the time at which `expire_timers` has something to do; infinite if never."""
        return self._stream.next_deadline if self._stream is not None else math.inf

    def expire_timers(self, now: float) -> list[Resource]:
        """Return the wanted resources that timed out: neither this server nor another one sent them."""
        stream = self._stream
        if stream is None:
            return []
        # A71: while several servers are in use, another one may have sent the resource since this one's request.
        late = [each for each in stream.expire_timers(now) if each.awaited]
        for resource in late:
            self._subscriptions[resource.type].forget(resource.name)
            self._updater.on_resource_timeout(resource, now, is_answering=stream.received_response)
        return [resource for resource in late if resource.wanted]

    # -- the end of a stream

    def stream_ended(self, reason: str, now: float) -> None:
        """Note the end of the stream. It is a failure only if the server never answered on it (A57)."""
        stream, self._stream = self._stream, None
        self._forget_unwanted(*self._subscriptions)
        # A57: a stream that ends after a response is a reconnect, and watchers get no error.
        if stream is None or not stream.received_response:
            # The time of an outage is that of its first failure.
            if self.failure is None:
                self.failing_since = self._time_of_day(now)
            self.failure, self.is_answering = reason, False

    def become_idle(self) -> None:
        """Forget the failure and what was known: nothing is wanted, so both are out of date when somebody comes."""
        self.failure = None
        self._forget_unwanted(*self._subscriptions)

    def close(self) -> None:
        """End all subscriptions: this server is no longer used."""
        # Without a stream the server cannot be told, so resources that nobody watches may be forgotten at once.
        self._stream = None
        for subscription in self._subscriptions.values():
            subscription.unwanted.update(subscription.resources)
        self._forget_unwanted(*self._subscriptions)
