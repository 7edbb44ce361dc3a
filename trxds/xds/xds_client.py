"""The xDS client: watches of resources, and an ADS stream to each control plane (A27, A47, A71).

It works during one call of `run`. `watch` may be called before: such resources are requested when the stream begins.
What is known at the end stays known.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from random import Random

import trio

from trxds.core.clock import TimeOfDay, time_of_day
from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.observers import Observers
from trxds.core.plural import plural
from trxds.core.resource_status import resource_error
from trxds.core.resource_update import ResourceUpdate
from trxds.resources.types import ParseContext, ResourceType
from trxds.transport.connect import Network

from .ads_stream import AdsStream
from .ads_stream_state import AdsStreamState
from .authority import Authority
from .bootstrap import DELTA, Bootstrap, Node, ServerConfig
from .bootstrap import Authority as AuthorityConfig
from .channel_credentials import secure_network
from .delta import DeltaProtocol
from .discovery_request import ProtocolVariant
from .file_stream import FileStream
from .lrs_servers import LrsServers
from .lrs_stream import LoadStoreInterface, LrsStream
from .resource import Changes, Resource
from .resource_cache import CacheLocation, ResourceCache
from .resource_error_policy import resource_error_policy
from .resource_names import authority_of, canonical, check_type
from .sotw import SotwProtocol
from .watch_registry import Watch, WatchRegistry
from .xds_channel import XdsChannel
from .xds_telemetry import resource_event

log = logging.getLogger("trxds.xds")


def server_context(context: ParseContext, server: ServerConfig) -> ParseContext:
    """Return the settings of the parsers of what that server sends."""
    # The server's features decide which fields are read (A81), and `self` in its resources means this server (A27).
    # Nobody takes load reports (LRS) where resources come from files.
    return replace(context, server_features=server.features, server=None if server.files else server)


def protocol_variant(server: ServerConfig) -> ProtocolVariant:
    """Return the variant of the xDS protocol that the bootstrap asks for."""
    # `FileStream` answers as in state of the world.
    return DeltaProtocol() if DELTA in server.features and not server.files else SotwProtocol()


def _authorities(bootstrap: Bootstrap) -> dict[str | None, AuthorityConfig]:
    """Return the authorities by name; None is that of names of the old style, with the top-level servers."""
    return {None: AuthorityConfig("", bootstrap.servers)} | dict(bootstrap.authorities.items())


class XdsClient:
    """Resources by name, from the servers of a bootstrap.

    With `data_error_handling` the errors of a resource are handled by A88, otherwise by A53. `loads` are the loads
    of the clusters to report (LRS). With a `cache` the last accepted resources are kept there, for a start at
    which no server answers.
    """

    def __init__(
        self,
        bootstrap: Bootstrap,
        network: Network,
        random: Random,
        context: ParseContext,
        loads: LoadStoreInterface,
        *,
        data_error_handling: bool = False,
        observers: Observers | None = None,
        time_of_day: TimeOfDay = time_of_day,
        cache: CacheLocation | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._network = network
        self._random = random
        self._context = context
        self._data_error_handling = data_error_handling
        self._loads = loads
        self.observers = observers or Observers()
        """The observers of its events."""
        self._time_of_day = time_of_day
        self._lrs_servers = LrsServers(self._start_reports, self._stop_reports)
        self._watches = WatchRegistry(self._subscribe, self._unsubscribe, self._lrs_servers.update)
        self._streams: dict[AdsStreamState, AdsStream | FileStream] = {}
        self._lrs_streams: dict[ServerConfig, LrsStream] = {}
        self._nursery: trio.Nursery | None = None
        self._authorities: dict[str | None, Authority] = {
            name: Authority(
                configured.servers or bootstrap.servers,
                self,
                bootstrap.node.id,
                time_of_day,
                fallback_on_reachability_only=configured.fallback_on_reachability_only,
            )
            for name, configured in _authorities(bootstrap).items()
        }
        self._cache: ResourceCache | None = None
        if cache is not None:
            servers = chain.from_iterable(each.servers for each in _authorities(bootstrap).values())
            contexts = {server.uri: server_context(context, server) for server in servers}
            self._cache = ResourceCache(
                cache, self._authorities, contexts, self._streams.keys, self._watches.publish, self._report_resources
            )

    def __repr__(self) -> str:
        return f"<XdsClient {', '.join(map(repr, self._streams))}>"

    async def run(self) -> None:
        """Run the streams to the control planes until cancelled; nothing is left when it returns."""
        async with trio.open_nursery() as self._nursery:
            try:
                if self._cache is not None:
                    self._start_task(self._cache.run, "xds cache")
                for stream in self._all_streams():
                    self._start_stream(stream)
                await trio.sleep_forever()
            finally:
                self._nursery = None  # before the nursery closes: watchers that stay must start no task in it

    def close(self) -> None:
        """End all requests, before `run` is cancelled while watchers stay.

        The watchers keep what they have and wait for nothing more.
        """
        if self._watches.count:
            log.warning(
                "the shared xDS client is closed; what its channels have stays as it is: %s",
                plural(self._watches.count, "resource"),
            )
        for authority in self._authorities.values():
            self._watches.publish(authority.close(trio.current_time()))

    @property
    def node(self) -> Node:
        """Return the identity that the client sends."""
        return self._bootstrap.node

    @property
    def resources(self) -> Iterable[Resource]:
        """Return all watched resources with their state."""
        return chain.from_iterable(authority.resources for authority in self._authorities.values())

    def servers_for(self, name: str) -> tuple[tuple[str, ...], str]:
        """Return the URIs of the servers in use for resources like this one, and their outage.

        The server of the highest priority is the first. The outage is empty while one of them may still answer.
        """
        authority = self._authorities.get(authority_of(name))
        return (authority.active_servers, authority.outage) if authority is not None else ((), "")

    @property
    def outages(self) -> tuple[str, ...]:
        """Return what is wrong with the servers of each authority none of whose servers can be reached."""
        # Without duplicates, because authorities may share a server.
        return tuple(dict.fromkeys(filter(None, (each.outage for each in self._authorities.values()))))

    @property
    def stale(self) -> str:
        """Describe the resources in use that are from the cache on disk; empty if there are none."""
        return self._cache.stale if self._cache is not None else ""

    @property
    def xds_channels(self) -> Iterator[XdsChannel]:
        """Yield the channels to all servers that ADS or LRS uses."""
        yield from dict.fromkeys(stream.xds_channel for stream in self._all_streams())

    def watch(self, type: ResourceType, name: str, queue: ConflatingQueue[ResourceUpdate], sender: Hashable) -> Watch:
        """Put each state of the resource into `queue` as `sender`, and at once the one that is known.

        While nothing is known there is no message. Watchers of a resource share one subscription.
        """
        return self._watches.add((type, canonical(name)), queue, sender)

    def describe_pending(self, type: ResourceType, name: str) -> str:
        """Describe why a resource is not in use yet; the text is empty for one that nobody watches."""
        authority = self._authorities.get(authority_of(name))
        return authority.describe_pending((type, canonical(name))) if authority is not None else ""

    def _subscribe(self, type: ResourceType, name: str) -> Changes:
        now = trio.current_time()
        # Such a watch gets its error at once, and no server is asked for the name.
        if problem := self._name_error(type, name):
            resource = Resource(type, name, since=self._time_of_day(now))
            standing = resource.standing("no server", self._bootstrap.node.id)
            return {resource.key: ResourceUpdate(error=resource_error(standing, problem))}
        authority = self._authorities[authority_of(name)]
        changes = authority.watch(type, name, now)
        self._notify_streams(authority)
        self._report_resources([authority.resource(type, name)])
        if self._cache is not None:
            self._cache.note([authority.resource(type, name)])
        return changes

    def _name_error(self, type: ResourceType, name: str) -> str | None:
        """Return why no server can be asked for that name, or None."""
        authority = authority_of(name)
        if authority not in self._authorities:
            return f'authority "{authority}" is not in the bootstrap\'s authorities; add it there'
        return check_type(name, type.type_url)

    def _unsubscribe(self, type: ResourceType, name: str) -> None:
        self._lrs_servers.remove((type, name))
        if self._name_error(type, name) is None:
            authority = self._authorities[authority_of(name)]
            resource = authority.unwatch(type, name)
            self._report_resources([resource])
            if self._cache is not None:
                self._cache.note([resource])
            self._notify_streams(authority)

    def _notify_streams(self, authority: Authority) -> None:
        for stream_state, stream in self._streams.items():
            if authority.uses(stream_state):
                stream.subscription_changed()

    # -- streams, one for each server: authorities with equal servers share one (A71)

    def get_or_create_stream(self, server: ServerConfig) -> AdsStreamState:
        for stream_state, stream in self._streams.items():
            if stream_state.server == server:
                # The caller subscribes to more resources in this step, so the writer has to wake.
                stream.subscription_changed()
                return stream_state
        rules = resource_error_policy(server.features, a88=self._data_error_handling)
        stream_state = AdsStreamState(server, self._bootstrap.node, protocol_variant(server), rules, self._time_of_day)
        context = server_context(self._context, server)
        # ADS and LRS share one connection to a server.
        xds_channel = self._xds_channel(server)
        common = stream_state, self._watches, self._review, xds_channel
        if server.files:
            stream = FileStream(*common, context, self.observers)
        else:
            stream = AdsStream(*common, self._random, context, self.observers)
        self._streams[stream_state] = stream
        self._start_stream(stream)
        return stream_state

    def release_stream(self, stream_state: AdsStreamState) -> None:
        # If another authority still uses this server, the names of this one have to be unsubscribed.
        stream = self._streams[stream_state]
        stream.subscription_changed()
        if not any(authority.uses(stream_state) for authority in self._authorities.values()):
            del self._streams[stream_state]
            stream.close()

    def _xds_channel(self, server: ServerConfig) -> XdsChannel:
        """Return the channel to the server, the same for all its streams."""
        for stream in self._all_streams():
            if stream.server == server:
                return stream.xds_channel
        network = self._network
        if not server.files:
            network = secure_network(network, server.credentials, server.address)
        return XdsChannel(server, network, self._start_task)

    def _all_streams(self) -> Iterator[AdsStream | FileStream | LrsStream]:
        yield from self._streams.values()
        yield from self._lrs_streams.values()

    def _start_stream(self, stream: AdsStream | FileStream | LrsStream) -> None:
        self._start_task(stream.run, f"{stream.kind}/{stream.server.uri}")

    def _start_task(self, run: Callable[[], Awaitable[None]], name: str) -> None:
        # Before `run` the streams are only listed, and `run` starts them.
        if self._nursery is not None:
            self._nursery.start_soon(run, name=name)

    def _review(self, stream_state: AdsStreamState, touched: Collection[Resource]) -> Changes:
        """Have the authorities of a stream review its changes, and return what changed for watchers."""
        changes = Changes()
        self._report_resources(touched)
        for authority in self._authorities.values():
            if authority.uses(stream_state):
                changes |= authority.review(touched)
        if self._cache is not None:
            self._cache.note(touched)
        return changes

    def _report_resources(self, resources: Iterable[Resource]) -> None:
        # Without observers, thousands of resources should cost nothing here.
        if self.observers.active:
            for resource in resources:
                self.observers.xds_resource(resource_event(resource))

    # -- load reports

    def _start_reports(self, server: ServerConfig) -> None:
        stream = LrsStream(self._xds_channel(server), self._bootstrap.node, self._loads, self._random)
        self._lrs_streams[server] = stream
        self._start_stream(stream)

    def _stop_reports(self, server: ServerConfig) -> None:
        self._lrs_streams.pop(server).close()
