"""Requests and responses that cross, with servers that believe what state of the world lets them believe.

A request with the nonce of the last response has the server take it that we have all that it sent under the
names there; any other request is ignored. Whatever crossed: when all is said, each watcher has what the server has.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from trxds.ads.authority import Authority
from trxds.ads.bootstrap import Node, ServerConfig
from trxds.ads.protocol import Conversation
from trxds.ads.resource import Changes
from trxds.ads.response import Item, Reading
from trxds.ads.state import ResourceState
from trxds.resources.types import CDS, EDS, RESOURCE_TYPES, Parsed, ResourceType

Key = tuple[ResourceType, str]

TYPES = st.sampled_from([CDS, EDS])
NAMES = st.sampled_from("abc")
TEXTS = st.sampled_from(["1", "2", "bad"])


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


class CrossingMachine(RuleBasedStateMachine):
    @initialize(server=st.sampled_from(["one by one", "as they come", "snapshots"]))
    def begin(self, server: str) -> None:
        self.server = Snapshots() if server == "snapshots" else Incremental(waits=server == "one by one")
        config = ServerConfig("plane:1")
        self.conversation = Conversation(config, Node("n"))
        self.authority = Authority([config], self, "n")
        self.now = 0.0
        self.watched: set[Key] = set()
        self.told: dict[Key, ResourceState] = {}
        self.refused: set[ResourceType] = set()  # types with a bad resource, now or not long ago
        self.in_flight: Any = None
        self.requests: deque[Any] = deque()
        self.conversation.stream_opened()

    def engage(self, server: ServerConfig) -> Conversation:
        return self.conversation

    def release(self, conversation: Conversation) -> None:
        raise AssertionError("the only server is never released")

    # -- what may happen

    @rule(type=TYPES, name=NAMES)
    def watch(self, type: ResourceType, name: str) -> None:
        if (type, name) not in self.watched:
            self.watched.add((type, name))
            self.hear(self.authority.watch(type, name, self.now))

    @rule(type=TYPES, name=NAMES)
    def leave(self, type: ResourceType, name: str) -> None:
        if (type, name) in self.watched:
            self.watched.discard((type, name))
            self.told.pop((type, name), None)
            self.authority.leave(type, name)

    @rule(type=TYPES, name=NAMES, text=TEXTS)
    def put(self, type: ResourceType, name: str, text: str) -> None:
        if text == "bad":
            self.refused.add(type)
        self.server.change(type, name, text)

    @rule(type=TYPES, name=NAMES)
    def remove(self, type: ResourceType, name: str) -> None:
        if name in self.server.resources[type]:
            self.server.change(type, name, None)

    @precondition(lambda self: self.in_flight is None)
    @rule()
    def client_writes(self) -> None:
        """The server may have read it before the client knows that it is sent."""
        self.in_flight = self.conversation.next_request(self.now)
        if self.in_flight is not None:
            self.requests.append(self.in_flight)

    @precondition(lambda self: self.in_flight is not None)
    @rule()
    def client_has_written(self) -> None:
        self.conversation.sent(self.in_flight, self.now)
        self.in_flight = None

    @precondition(lambda self: self.requests)
    @rule()
    def server_reads(self) -> None:
        self.server.hear(self.requests.popleft())

    @precondition(lambda self: self.server.responses)
    @rule()
    def client_reads(self) -> None:
        type, version, nonce, resources = self.server.responses.popleft()
        items = tuple(self.item(type, name, text) for name, text in resources.items())
        reading = Reading(type, version, nonce, items)
        self.hear(self.authority.review(self.conversation.received(reading, self.now)))

    @rule()
    def stream_breaks(self) -> None:
        self.conversation.stream_ended("over", self.now)
        self.hear(self.authority.review([]))
        self.in_flight = None
        self.requests.clear()
        self.server.restart()
        self.conversation.stream_opened()

    @rule()
    def all_is_said(self) -> None:
        """At once, unless something of that type was refused: a NACK may have to wait."""
        self.exchange()
        for type, name in self.watched:
            if type not in self.refused:
                self.check(type, name)
        for _ in range(17):  # seconds: longer than what does not exist is waited for
            self.now += 1.0
            self.hear(self.authority.review(self.conversation.due(self.now)))
            self.exchange()
        self.refused = {type for type in (CDS, EDS) if "bad" in self.server.resources[type].values()}
        for type, name in self.watched:
            self.check(type, name)
            if type is CDS and name not in self.server.resources[type]:
                assert self.told[type, name].absent, (type.kind, name)

    # -- the machine's own

    def exchange(self) -> None:
        for _ in range(200):
            if self.in_flight is not None:
                self.client_has_written()
            elif self.requests:
                self.server_reads()
            elif self.server.responses:
                self.client_reads()
            else:
                self.client_writes()
                if self.in_flight is None:
                    return
        raise AssertionError("it never comes to rest")

    def check(self, type: ResourceType, name: str) -> None:
        text = self.server.resources[type].get(name)
        if text is not None:
            state = self.told.get((type, name))
            assert state is not None, (type.kind, name, text)
            shown = "bad" if state.error or state.ambient else state.value
            assert shown == text, (type.kind, name, text, shown)

    def item(self, type: ResourceType, name: str, text: str) -> Item:
        raw = name, text.encode()
        parsed = Parsed(name, None, ("bad",)) if text == "bad" else Parsed(name, text, ())
        return Item(raw, self.conversation.known(type).get(raw) or parsed)

    def hear(self, changes: Changes) -> None:
        for key, state in changes.items():
            if key in self.watched:
                self.told[key] = state


TestCrossing = CrossingMachine.TestCase
TestCrossing.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
