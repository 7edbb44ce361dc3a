"""Requests and responses that cross, with servers that believe what state of the world lets them believe.

A request with the nonce of the last response has the server take it that we have all that it sent under the
names there; any other request is ignored. Whatever crossed: when all is said, each watcher has what the server has.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import Any

import pytest

from trxds.core.resource_update import ResourceUpdate
from trxds.resources.types import CDS, EDS, RESOURCE_TYPES, Parsed, ResourceType
from trxds.xds.ads_stream_state import AdsStreamState
from trxds.xds.authority import Authority
from trxds.xds.bootstrap import Node, ServerConfig
from trxds.xds.discovery_response import ParsedResource, ParsedResponse
from trxds.xds.resource import Changes

SCHEDULES = int(os.environ.get("SCHEDULES", "600"))


@dataclass
class Told:
    """What the server knows of one type's subscription on a stream."""

    names: frozenset[str] | None = None
    nonce: str = ""
    sent: dict[str, str] = field(default_factory=dict)  # what it believes we have
    answered: bool = True


class Incremental:
    """Sends what is new, of EDS nothing else. With `waits` it sends nothing more before it has an answer."""

    def __init__(self, *, waits: bool) -> None:
        self.waits = waits
        self.resources: dict[ResourceType, dict[str, str]] = {CDS: {}, EDS: {}}
        self.version = 0
        self.nonces = count(1)
        self.restart()

    def restart(self) -> None:
        self.told = {CDS: Told(), EDS: Told()}
        self.responses: deque[tuple[ResourceType, str, str, dict[str, str]]] = deque()

    def change(self, type: ResourceType, name: str, text: str | None) -> None:
        self.version += 1
        self.resources[type].pop(name, None)
        if text is not None:
            self.resources[type][name] = text
        for each in (CDS, EDS):
            self.push(each)

    def hear(self, request: Any) -> None:
        told = self.told[RESOURCE_TYPES[request.type_url]]
        if told.names is not None and told.nonce and request.response_nonce != told.nonce:
            return
        assert request.resource_names or told.names is not None, "an empty first request means everything"
        told.names, told.answered = frozenset(request.resource_names), True
        told.sent = {name: text for name, text in told.sent.items() if name in told.names}
        self.answer(RESOURCE_TYPES[request.type_url], request)

    def answer(self, type: ResourceType, request: Any) -> None:
        self.push(type)

    def push(self, type: ResourceType) -> None:
        told = self.told[type]
        if told.names is None or (self.waits and not told.answered):
            return
        have = {name: text for name, text in self.resources[type].items() if name in told.names}
        new = {name: text for name, text in have.items() if told.sent.get(name) != text}
        if type is CDS and (have != told.sent or not told.nonce):
            self.send(type, have, have)
        elif type is EDS and new:
            self.send(type, new, told.sent | new)

    def send(self, type: ResourceType, resources: dict[str, str], believed: dict[str, str]) -> None:
        told = self.told[type]
        told.nonce, told.sent, told.answered = f"n{next(self.nonces)}", dict(believed), False
        self.responses.append((type, f"v{self.version}", told.nonce, dict(resources)))


class Snapshots(Incremental):
    """go-control-plane's snapshot cache: all that is asked for whenever anything has changed or the client has not the
    version, so a NACK brings it again; everything if nothing is asked for."""

    def __init__(self) -> None:
        super().__init__(waits=True)

    def answer(self, type: ResourceType, request: Any) -> None:
        told = self.told[type]
        assert told.names is not None
        unknown = (told.names & self.resources[type].keys()) - told.sent.keys()
        if request.version_info != f"v{self.version}" or unknown:
            self.send_all(type, told.names)

    def push(self, type: ResourceType) -> None:
        told = self.told[type]
        if told.names is not None and told.answered:
            self.send_all(type, told.names)

    def send_all(self, type: ResourceType, names: frozenset[str]) -> None:
        have = {name: text for name, text in self.resources[type].items() if not names or name in names}
        self.send(type, have, have)


class Crossing:
    """One client with two resources of a type, and a server; a step is what one of them does."""

    def __init__(self, type: ResourceType, server: Incremental) -> None:
        self.type = type
        self.server = server
        config = ServerConfig("plane:1")
        self.conversation = AdsStreamState(config, Node("n"))
        self.authority = Authority([config], self, "n")
        self.now = 0.0
        self.watched: set[str] = set()
        self.told: dict[str, ResourceUpdate] = {}
        self.refused = False  # something is, or was not long ago
        self.in_flight: Any = None
        self.requests: deque[Any] = deque()
        self.conversation.stream_opened()
        for name in "ab":
            self.server.change(type, name, "1")
            self.watch_or_leave(name)
        self.exchange()

    def get_or_create_stream(self, server: ServerConfig) -> AdsStreamState:
        return self.conversation

    def release_stream(self, conversation: AdsStreamState) -> None:
        raise AssertionError("the only server is never released")

    # -- what may happen

    def watch_or_leave(self, name: str) -> None:
        if name in self.watched:
            self.watched.discard(name)
            self.told.pop(name, None)
            self.authority.unwatch(self.type, name)
        else:
            self.watched.add(name)
            self.hear(self.authority.watch(self.type, name, self.now))

    def put(self, name: str, text: str) -> None:
        self.refused = self.refused or text == "bad"
        self.server.change(self.type, name, text)

    def remove(self, name: str) -> None:
        if name in self.server.resources[self.type]:
            self.server.change(self.type, name, None)

    def client_writes(self) -> None:
        """The server may have read it before the client knows that it is sent."""
        if self.in_flight is not None:
            self.conversation.sent(self.in_flight, self.now)
            self.in_flight = None
        else:
            self.in_flight = self.conversation.next_request(self.now)
            if self.in_flight is not None:
                self.requests.append(self.in_flight)

    def server_reads(self) -> None:
        if self.requests:
            self.server.hear(self.requests.popleft())

    def client_reads(self) -> None:
        if self.server.responses:
            type, version, nonce, resources = self.server.responses.popleft()
            items = tuple(self.item(name, text) for name, text in resources.items())
            reading = ParsedResponse(type, version, nonce, items)
            self.hear(self.authority.review(self.conversation.received(reading, self.now)))

    def stream_breaks(self) -> None:
        self.conversation.stream_ended("over", self.now)
        self.hear(self.authority.review([]))
        self.in_flight = None
        self.requests.clear()
        self.server.restart()
        self.conversation.stream_opened()

    def all_is_said(self) -> None:
        """At once, unless something was refused: a NACK may have to wait."""
        self.exchange()
        if not self.refused:
            self.watchers_have_what_the_server_has()
        for _ in range(17):  # seconds: longer than what does not exist is waited for
            self.now += 1.0
            self.hear(self.authority.review(self.conversation.expire_timers(self.now)))
            self.exchange()
        self.refused = "bad" in self.server.resources[self.type].values()
        self.watchers_have_what_the_server_has()
        if self.type is CDS:
            for name in self.watched - self.server.resources[CDS].keys():
                assert self.told[name].absent, f"{name} is not there"

    # -- its own

    def exchange(self) -> None:
        for _ in range(200):
            self.client_writes()
            idle = self.in_flight is None and not self.requests and not self.server.responses
            if idle and not self.conversation.has_pending_requests:
                return
            self.server_reads()
            self.client_reads()
        raise AssertionError("it never comes to rest")

    def watchers_have_what_the_server_has(self) -> None:
        for name in self.watched & self.server.resources[self.type].keys():
            state, text = self.told.get(name), self.server.resources[self.type][name]
            assert state is not None, f"{name} was not served"
            shown = "bad" if state.error or state.ambient else state.value
            assert shown == text, f"{name} is {text}, its watcher has {shown}"

    def item(self, name: str, text: str) -> ParsedResource:
        raw = name, text.encode()
        parsed = Parsed(name, None, ("bad",)) if text == "bad" else Parsed(name, text, ())
        return ParsedResource(raw, self.conversation.parsed_resources(self.type).get(raw) or parsed)

    def hear(self, changes: Changes) -> None:
        for (_, name), state in changes.items():
            if name in self.watched:
                self.told[name] = state


STEPS: list[tuple[int, str, list[str]]] = [  # how often, what, and of which each time one is drawn
    (4, "watch_or_leave a", []),
    (1, "watch_or_leave b", []),
    (1, "put a", ["1", "2", "bad"]),
    (2, "put b", ["1", "2", "bad"]),
    (1, "remove a", []),
    (4, "client_writes", []),
    (4, "server_reads", []),
    (4, "client_reads", []),
    (1, "stream_breaks", []),
]


def schedule(random: Random) -> list[str]:
    drawn = random.choices(STEPS, [weight for weight, _, _ in STEPS], k=random.randint(3, 14))
    return [" ".join([step, *random.sample(choice, 1)]) if choice else step for _, step, choice in drawn]


def run(crossing: Crossing, steps: list[str]) -> None:
    for step in steps:
        name, *arguments = step.split()
        getattr(crossing, name)(*arguments)
    crossing.all_is_said()
    for name in "ab":
        if name not in crossing.watched:
            crossing.watch_or_leave(name)
    crossing.all_is_said()


SERVERS: dict[str, Callable[[], Incremental]] = {
    "one at a time": partial(Incremental, waits=True),
    "as they come": partial(Incremental, waits=False),
    "snapshots": Snapshots,
}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("type", [CDS, EDS], ids=["CDS", "EDS"])
def test_watchers_finally_have_the_servers_resources_for_any_order_of_messages(type: ResourceType, server: str) -> None:
    random = Random(14)
    for _ in range(SCHEDULES):
        steps = schedule(random)
        try:
            run(Crossing(type, SERVERS[server]()), steps)
        except AssertionError as error:
            raise AssertionError(f"{error} after {shortest(steps, type, server)}") from None


def shortest(steps: list[str], type: ResourceType, server: str) -> list[str]:
    """Without the steps that do not matter."""
    for index in range(len(steps)):
        fewer = steps[:index] + steps[index + 1 :]
        try:
            run(Crossing(type, SERVERS[server]()), fewer)
        except AssertionError:
            return shortest(fewer, type, server)
    return steps
