"""The xDS client: watches on one side, an ADS stream for each control plane on the other (A27, A47, A71).

Its life is one call of `run`. Before it `watch` works too: what is asked early is asked of the
server when the stream begins. What is known at the end stays known.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from random import Random

import trio

from trxds.core.clock import TimeOfDay, time_of_day
from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.observers import Observers
from trxds.core.plural import plural
from trxds.core.resource_status import ResourceStatus, resource_error
from trxds.resources.load_stats import ClusterLoad
from trxds.resources.types import ParseContext, ResourceType
from trxds.transport.connect import Network

from . import delta
from .ads_stream import AdsStream
from .ads_stream_state import AdsStreamState
from .authority import Authority
from .bootstrap import Bootstrap, Node, ServerConfig
from .channel_credentials import secure_network
from .delta import DeltaProtocol
from .lrs_servers import LrsServers
from .lrs_stream import LrsStream, TakeLoadReports
from .resource import Changes, Resource
from .resource_error_policy import resource_error_policy
from .resource_names import authority_of, canonical, check_type
from .resource_update import ResourceUpdate
from .sotw import SotwProtocol
from .watch_registry import Watch, WatchRegistry
from .xds_channel import XdsChannel
from .xds_telemetry import resource_event

log = logging.getLogger("trxds.xds")


def _no_loads(server: ServerConfig) -> tuple[ClusterLoad, ...]:
    """Nobody counts, so there is nothing to tell."""
    return ()


class XdsClient:
    """Resources by name, from the servers of a bootstrap.

    `data_error_handling` has bad news about a resource treated as A88 says, not as before it.
    `take_loads` has the load of the clusters that are to be reported (LRS).
    """

    def __init__(
        self,
        bootstrap: Bootstrap,
        network: Network,
        random: Random,
        context: ParseContext,
        *,
        data_error_handling: bool = False,
        take_loads: TakeLoadReports = _no_loads,
        observers: Observers | None = None,
        time_of_day: TimeOfDay = time_of_day,
    ) -> None:
        self._bootstrap = bootstrap
        self._network = network
        self._random = random
        self._context = context
        self._data_error_handling = data_error_handling
        self._take_loads = take_loads
        self.observers = observers or Observers()
        """Who watches, for who wants to."""
        self._time_of_day = time_of_day
        self._load_servers = LrsServers(self._begin_reports, self._end_reports)
        self._watches = WatchRegistry(self._subscribe, self._unsubscribe, self._load_servers.changed)
        self._streams: dict[AdsStreamState, AdsStream] = {}
        self._load_streams: dict[ServerConfig, LrsStream] = {}
        self._nursery: trio.Nursery | None = None
        self._authorities: dict[str | None, Authority] = {None: self._authority(bootstrap.servers, impatient=False)}
        self._authorities |= {
            name: self._authority(its.servers or bootstrap.servers, impatient=its.fallback_on_reachability_only)
            for name, its in bootstrap.authorities.items()
        }

    def _authority(self, servers: Sequence[ServerConfig], *, impatient: bool) -> Authority:
        return Authority(servers, self, self._bootstrap.node.id, self._time_of_day, impatient=impatient)

    def __repr__(self) -> str:
        return f"<XdsClient {', '.join(map(repr, self._streams))}>"

    async def run(self) -> None:
        """Talk to the control planes until cancelled; nothing is left when it returns."""
        async with trio.open_nursery() as self._nursery:
            try:
                for stream in self._streams.values():
                    self._begin(stream)
                for load_stream in self._load_streams.values():
                    self._begin(load_stream)
                await trio.sleep_forever()
            finally:
                self._nursery = None  # in here, for who still watches while it closes

    def close(self) -> None:
        """Before `run` is cancelled, if watchers stay: they keep what they have, and wait for nothing more."""
        if self._watches.count:
            log.warning(
                "the shared xDS client is closed; what its channels have stays as it is: %s",
                plural(self._watches.count, "resource"),
            )
        for authority in self._authorities.values():
            self._watches.publish(authority.close(trio.current_time()))

    @property
    def node(self) -> Node:
        """Who we say we are."""
        return self._bootstrap.node

    @property
    def resources(self) -> Iterable[Resource]:
        """All that is watched, and what is known of it."""
        return chain.from_iterable(authority.resources for authority in self._authorities.values())

    def servers_for(self, name: str) -> tuple[str, ...]:
        """The URIs of the servers that are asked for resources like this one, the most preferred first."""
        authority = self._authorities.get(authority_of(name))
        return authority.active_servers if authority is not None else ()

    @property
    def xds_channels(self) -> Iterator[XdsChannel]:
        """The ways to all servers that are asked or reported to."""
        yield from dict.fromkeys(stream.line for stream in self._all_streams())

    def watch(self, type: ResourceType, name: str, mailbox: ConflatingQueue[ResourceUpdate], sender: Hashable) -> Watch:
        """Put each state of the resource into `mailbox` as `sender`, and at once the one that is known.

        As long as nothing is known there is no letter. Watchers of a resource share one subscription.
        """
        return self._watches.add((type, canonical(name)), mailbox, sender)

    def describe_pending(self, type: ResourceType, name: str) -> str:
        """How a resource stands that has not come yet, in words; empty for one that nobody watches."""
        authority = self._authorities.get(authority_of(name))
        return authority.describe_pending((type, canonical(name))) if authority is not None else ""

    def _subscribe(self, type: ResourceType, name: str) -> Changes:
        now = trio.current_time()
        if problem := self._problem(type, name):
            since = self._time_of_day(now)
            standing = ResourceStatus(type.kind, name, "no server", self._bootstrap.node.id, "REQUESTED", since)
            return {(type, name): ResourceUpdate(error=resource_error(standing, problem))}
        authority = self._authorities[authority_of(name)]
        changes = authority.watch(type, name, now)
        self._wake(authority)
        self._tell_of([authority.resource(type, name)])
        return changes

    def _problem(self, type: ResourceType, name: str) -> str | None:
        """Why nobody can be asked for that name."""
        authority = authority_of(name)
        if authority not in self._authorities:
            return f'authority "{authority}" is not in the bootstrap\'s authorities; add it there'
        return check_type(name, type.type_url.rpartition("/")[2])

    def _unsubscribe(self, type: ResourceType, name: str) -> None:
        self._load_servers.left((type, name))
        if self._problem(type, name) is None:
            authority = self._authorities[authority_of(name)]
            self._tell_of([authority.unwatch(type, name)])
            self._wake(authority)

    def _wake(self, authority: Authority) -> None:
        for conversation, stream in self._streams.items():
            if authority.uses(conversation):
                stream.subscription_changed()

    # -- servers, each once: authorities with an equal one share its stream

    def get_or_create_stream(self, server: ServerConfig) -> AdsStreamState:
        for conversation, stream in self._streams.items():
            if conversation.server == server:
                stream.subscription_changed()
                return conversation
        rules = resource_error_policy(server.features, a88=self._data_error_handling)
        dialect = DeltaProtocol() if delta.FEATURE in server.features else SotwProtocol()
        conversation = AdsStreamState(server, self._bootstrap.node, dialect, rules, self._time_of_day)
        # The server decides what is read of its resources (A81), and is the one that `self` means in them (A27).
        context = replace(self._context, server_features=server.features, server=server)
        line = self._line(server)
        stream = AdsStream(conversation, self._watches, self._review, line, self._random, context, self.observers)
        self._streams[conversation] = stream
        self._begin(stream)
        return conversation

    def release_stream(self, conversation: AdsStreamState) -> None:
        # Another authority may go on asking this server: then the names of this one have to be taken back.
        stream = self._streams[conversation]
        stream.subscription_changed()
        if not any(authority.uses(conversation) for authority in self._authorities.values()):
            del self._streams[conversation]
            stream.close()

    def _line(self, server: ServerConfig) -> XdsChannel:
        """The way to it, the same for all that is said there."""
        for stream in self._all_streams():
            if stream.server == server:
                return stream.line
        return XdsChannel(server, secure_network(self._network, server.credentials, server.address), self._start)

    def _all_streams(self) -> Iterator[AdsStream | LrsStream]:
        yield from self._streams.values()
        yield from self._load_streams.values()

    def _begin(self, stream: AdsStream | LrsStream) -> None:
        self._start(stream.run, f"{stream.kind}/{stream.server.uri}")

    def _start(self, run: Callable[[], Awaitable[None]], name: str) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(run, name=name)

    def _review(self, conversation: AdsStreamState, touched: Iterable[Resource]) -> Changes:
        """Something came of a conversation; what it means to watchers."""
        touched, changes = list(touched), Changes()
        self._tell_of(touched)
        for authority in self._authorities.values():
            if authority.uses(conversation):
                changes |= authority.review(touched)
        return changes

    def _tell_of(self, resources: Iterable[Resource]) -> None:
        if self.observers.active:
            for resource in resources:
                self.observers.xds_resource(resource_event(resource))

    # -- load reports

    def _begin_reports(self, server: ServerConfig) -> None:
        stream = LrsStream(self._line(server), self._bootstrap.node, self._take_loads, self._random)
        self._load_streams[server] = stream
        self._begin(stream)

    def _end_reports(self, server: ServerConfig) -> None:
        self._load_streams.pop(server).close()
