"""The xDS client: watches on one side, an ADS stream for each control plane on the other (A27, A47).

Its life is one call of `run`. Before and after it `watch` works too: what is asked early is
asked of the server when the stream begins, and what is known at the end stays known.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from random import Random

import trio

from trxds.ads.bootstrap import Bootstrap, ServerConfig
from trxds.ads.names import authority_of
from trxds.ads.protocol import Conversation
from trxds.ads.state import ResourceState
from trxds.ads.stream import AdsStream
from trxds.ads.watches import Watch, Watches
from trxds.ground.channels import Mailbox
from trxds.ground.status import unavailable
from trxds.resources.types import ParseContext, ResourceType
from trxds.wire.connect import Network


class XdsClient:
    """Resources by name, from the servers of a bootstrap."""

    def __init__(self, bootstrap: Bootstrap, network: Network, random: Random, context: ParseContext) -> None:
        self._bootstrap = bootstrap
        self._watches = Watches(self._subscribe, self._unsubscribe)
        self._conversations = {server: Conversation(server, bootstrap.node) for server in _servers(bootstrap)}
        self._streams = {
            server: AdsStream(
                server, conversation, self._watches, network, random, replace(context, server_features=server.features)
            )
            for server, conversation in self._conversations.items()
        }

    def __repr__(self) -> str:
        return f"<XdsClient {', '.join(map(repr, self._conversations.values()))}>"

    async def run(self) -> None:
        """Talk to the control planes until cancelled; nothing is left when it returns."""
        async with trio.open_nursery() as nursery:
            for server, stream in self._streams.items():
                nursery.start_soon(stream.run, name=f"ads/{server.uri}")

    def watch(self, type: ResourceType, name: str, mailbox: Mailbox[ResourceState], sender: Hashable) -> Watch:
        """Put each state of the resource into `mailbox` as `sender`, and at once the one that is known.

        As long as nothing is known there is no letter. Watchers of a resource share one subscription.
        """
        return self._watches.add((type, name), mailbox, sender)

    def _subscribe(self, type: ResourceType, name: str) -> ResourceState | None:
        server = self._server_of(name)
        if server is None:
            reason = f'authority "{authority_of(name)}" is not in the bootstrap\'s authorities; add it there'
            return ResourceState(error=unavailable(f'{type.kind} resource "{name}": {reason}'))
        self._streams[server].subscription_changed()
        return self._conversations[server].subscribe(type, name)

    def _unsubscribe(self, type: ResourceType, name: str) -> None:
        server = self._server_of(name)
        if server is not None:
            self._conversations[server].unsubscribe(type, name)
            self._streams[server].subscription_changed()

    def _server_of(self, name: str) -> ServerConfig | None:
        """The server that has this resource; None if its authority is not configured."""
        authority = authority_of(name)
        if not authority:
            return self._bootstrap.servers[0]
        if authority not in self._bootstrap.authorities:
            return None
        return (self._bootstrap.authorities[authority].servers or self._bootstrap.servers)[0]


def _servers(bootstrap: Bootstrap) -> list[ServerConfig]:
    """The first server of each list, each once: an authority with an equal server shares its stream."""
    lists = [bootstrap.servers, *(authority.servers for authority in bootstrap.authorities.values())]
    return list(dict.fromkeys(servers[0] for servers in lists if servers))
