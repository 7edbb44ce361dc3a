"""The resources of one authority, and which of its servers are asked for them (A47, A71).

The first server is asked for everything. When it cannot be reached, and something is wanted that
never came, so is the next, and so on; one that answers takes the place of all below it. That is
decided anew, from what the servers do and what is known, whenever either has changed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from trxds.resources.types import ResourceType

from .bootstrap import ServerConfig
from .protocol import Conversation
from .resource import CacheState, Changes, Key, Resource, Trouble, differs
from .state import ResourceState

log = logging.getLogger("trxds.ads")


class Servers(Protocol):
    """Where conversations come from; authorities with equal servers share them."""

    def engage(self, server: ServerConfig) -> Conversation: ...
    def release(self, conversation: Conversation) -> None: ...


class Authority:
    """`servers` have the highest priority first."""

    def __init__(self, servers: Sequence[ServerConfig], supply: Servers, node: str) -> None:
        self._servers = servers
        self._supply = supply
        self._node = node
        self._asked: list[Conversation] = []  # the first of `servers`
        self._resources: dict[Key, Resource] = {}
        self._leaving: dict[Key, Resource] = {}  # no longer watched; some server has still to be told
        self._failure: Trouble | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<Authority {len(self._resources)} resources of {self._asked}>"

    @property
    def resources(self) -> Iterable[Resource]:
        """All that are watched."""
        return self._resources.values()

    @property
    def asked(self) -> tuple[str, ...]:
        """The URIs of the servers that are asked, the most preferred first."""
        return tuple(conversation.server.uri for conversation in self._asked)

    def asks(self, conversation: Conversation) -> bool:
        return conversation in self._asked

    # -- what watchers want

    def watch(self, type: ResourceType, name: str) -> Changes:
        """Want a resource. What is known of it is a change, and so is what it brings about."""
        resource = self._resources.get((type, name)) or self._leaving.pop((type, name), None) or Resource(type, name)
        self._resources[type, name] = resource
        resource.wanted, resource.told = True, None
        if not self._asked and not self._closed:
            self._ask_next()
        for conversation in self._asked:
            conversation.subscribe(resource)
        return self.review([resource])

    def resource(self, type: ResourceType, name: str) -> Resource:
        """One that is watched."""
        return self._resources[type, name]

    def leave(self, type: ResourceType, name: str) -> Resource:
        """Want it no longer; it is kept until the servers are told, since a watcher may come back."""
        resource = self._resources.pop((type, name))
        resource.wanted = False
        for conversation in self._asked:
            conversation.unsubscribe(resource)
        self._leaving = {key: each for key, each in self._leaving.items() if each.asked_of}
        self._leaving[type, name] = resource
        return resource

    def close(self) -> Changes:
        """Ask nobody any more. What is known stays; what is not known is in error from now on."""
        self._closed = True
        for conversation in self._asked:
            conversation.close()
        self._asked = []
        return self.review([])

    # -- what servers do

    def review(self, touched: Iterable[Resource]) -> Changes:
        """Something happened, to these resources or to a server: choose servers, and see what it means to watchers."""
        self._return()
        while self._must_fall_back():
            self._ask_next()
        failure = self._present_failure()
        if failure != self._failure:
            self._failure, touched = failure, self._resources.values()
        return self._changes(touched)

    def _return(self) -> None:
        """The best server that answers is enough."""
        for place, conversation in enumerate(self._asked, 1):
            if conversation.answers:
                below, self._asked = self._asked[place:], self._asked[:place]
                for each in below:
                    log.info("xDS server %s answers; %s is asked no longer", conversation.server.uri, each.server.uri)
                    self._drop(each)
                return

    def _must_fall_back(self) -> bool:
        if not self._asked or self._asked[-1].failure is None or len(self._asked) == len(self._servers):
            return False
        return any(resource.state is CacheState.REQUESTED for resource in self._resources.values())

    def _ask_next(self) -> None:
        for above in self._asked:
            above.forget_versions()
        conversation = self._supply.engage(self._servers[len(self._asked)])
        if self._asked:
            failed = self._asked[-1]
            log.warning(
                "xDS server %s: %s; asking %s as well", failed.server.uri, failed.failure, conversation.server.uri
            )
        self._asked.append(conversation)
        for resource in self._resources.values():
            conversation.subscribe(resource)

    def _drop(self, conversation: Conversation) -> None:
        for resource in (*self._resources.values(), *self._leaving.values()):
            conversation.unsubscribe(resource)
        self._supply.release(conversation)

    def _present_failure(self) -> Trouble | None:
        """That nobody can be reached; while there is one to hope for, watchers hear nothing (A71)."""
        if self._closed:
            return Trouble("no server", "the xDS client is closed")
        if not self._asked or self._asked[-1].failure is None:
            return None
        failures = {each.server.uri: each.failure for each in self._asked if each.failure}
        if len(failures) == 1:
            [(uri, reason)] = failures.items()
            return Trouble(f"server {uri}", f"cannot reach the xDS server: {reason}")
        reasons = "; ".join(f"{uri}: {reason}" for uri, reason in failures.items())
        return Trouble(f"servers {', '.join(failures)}", f"cannot reach any xDS server: {reasons}")

    # -- what watchers hear

    def _changes(self, touched: Iterable[Resource]) -> Changes:
        changes: Changes = {}
        for resource in touched:
            state = self._state(resource)
            if state is not None and differs(state, resource.told):
                resource.told = changes[resource.key] = state
        return changes

    def _state(self, resource: Resource) -> ResourceState | None:
        if self._resources.get(resource.key) is not resource:
            return None  # another authority's, or nobody's
        return resource.seen_by_watchers(self._failure, self._node)
