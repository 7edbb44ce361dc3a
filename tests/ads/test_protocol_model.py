"""The conversation against a model: a server and watchers that only remember what they were told.

The model knows nothing of requests that coalesce or of who is told when. It says what must be
true once everything is said: what the server believes we want and accepted, and what each
watcher believes of its resource.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trxds.ads.authority import Authority
from trxds.ads.bootstrap import Node, ServerConfig
from trxds.ads.delta import Delta
from trxds.ads.protocol import Conversation
from trxds.ads.request import Dialect
from trxds.ads.resource import Changes
from trxds.ads.response import Item, Reading
from trxds.ads.sotw import StateOfTheWorld
from trxds.ads.state import ResourceState
from trxds.resources.types import CDS, EDS, RESOURCE_TYPES, Parsed, ResourceType

Key = tuple[ResourceType, str]

TYPES = st.sampled_from([CDS, EDS])
NAMES = st.sampled_from("abc")
BAD = "bad"
RESOURCES = st.dictionaries(NAMES, st.sampled_from(["1", "2", BAD]))


@dataclass
class Server:
    """What a control plane knows of a client after the last request of each type."""

    names: dict[ResourceType, set[str]] = field(default_factory=dict)
    version: dict[ResourceType, str] = field(default_factory=dict)
    nonce: dict[ResourceType, str] = field(default_factory=dict)
    answers: dict[ResourceType, list[tuple[str, bool]]] = field(default_factory=dict)  # nonces, and if refused
    nodes: int = 0

    def hears(self, request: Any) -> None:
        type = RESOURCE_TYPES[request.type_url]
        self.names[type] = self.wanted(type, request)
        self.nonce[type] = request.response_nonce or self.nonce.get(type, "")
        if request.response_nonce:
            self.answers.setdefault(type, []).append((request.response_nonce, request.HasField("error_detail")))
        self.nodes += request.HasField("node")

    def wanted(self, type: ResourceType, request: Any) -> set[str]:
        assert request.resource_names or type in self.names, "an empty first request means everything"
        self.version[type] = request.version_info
        return set(request.resource_names)


class DeltaServer(Server):
    def wanted(self, type: ResourceType, request: Any) -> set[str]:
        more, less = set(request.resource_names_subscribe), set(request.resource_names_unsubscribe)
        assert more or type in self.names, "an empty first request means everything"
        before = self.names.get(type, set())
        assert less <= before and not more & before, "said twice"
        return before - less | more


class ConversationMachine(RuleBasedStateMachine):
    dialect: Dialect = StateOfTheWorld()

    @initialize()
    def begin(self) -> None:
        server = ServerConfig("plane:1")
        self.conversation = Conversation(server, Node("n"), self.dialect)
        self.authority = Authority([server], self, "n")
        self.now = 0.0
        self.count = 0
        self.server: Server | None = None  # while a stream is open
        self.answered = False
        self.failed = False
        self.accepted = {CDS: "", EDS: ""}
        self.nonces: dict[ResourceType, str] = {}
        self.owed: dict[ResourceType, list[tuple[str, bool]]] = {}  # responses not answered yet, and if to be refused
        self.watched: set[Key] = set()
        self.remembered: set[Key] = set()  # what is watched, and what was until something is said
        self.told: dict[Key, str] = {}
        self.value: dict[Key, str] = {}
        self.bad: set[Key] = set()
        self.absent: set[Key] = set()
        self.asked: dict[Key, float] = {}

    # -- what may happen

    @rule(type=TYPES, name=NAMES)
    def watch(self, type: ResourceType, name: str) -> None:
        self.watched.add((type, name))
        self.remembered.add((type, name))
        self.told.pop((type, name), None)
        self.heard(self.authority.watch(type, name, 0.0))

    @rule(type=TYPES, name=NAMES)
    def leave(self, type: ResourceType, name: str) -> None:
        if (type, name) in self.watched:
            self.watched.discard((type, name))
            self.told.pop((type, name), None)
            self.authority.leave(type, name)

    @precondition(lambda self: self.server is None)
    @rule()
    def open_stream(self) -> None:
        self.server, self.answered, self.nonces = self.new_server(), False, {}
        self.conversation.stream_opened()

    @rule()
    def break_off(self) -> None:
        self.server, self.owed, self.asked = None, {}, {}
        self.forget()
        self.failed = self.failed or not self.answered
        self.answered = False
        self.conversation.stream_ended("refused", 0.0)
        self.heard(self.authority.review([]))

    @precondition(lambda self: self.server is not None)
    @rule()
    def say_everything(self) -> None:
        assert self.server is not None
        self.forget()
        before = {type: set(names) for type, names in self.server.names.items()}
        self.server.answers = {}
        while (request := self.conversation.next_request()) is not None:
            self.server.hears(request)
            self.conversation.sent(request, self.now)
        for key in self.watched - self.value.keys() - self.absent:
            if key[1] not in before.get(key[0], set()):
                self.asked[key] = self.now
        self.server_believes_what_is_so()
        # What answers a type that nobody has asked for waits until somebody does.
        self.owed = {type: owed for type, owed in self.owed.items() if type not in self.server.names}

    @precondition(lambda self: self.server is not None)
    @rule(type=TYPES, resources=RESOURCES)
    def respond(self, type: ResourceType, resources: dict[str, str]) -> None:
        self.count += 1
        version, nonce = f"v{self.count}", f"n{self.count}"
        items = tuple(item(name, text) for name, text in resources.items())
        reading = self.reading(type, version, nonce, items)
        self.heard(self.authority.review(self.conversation.received(reading, self.now)))
        self.answered, self.failed = True, False
        self.nonces[type] = nonce
        refused = BAD in resources.values()
        self.owed.setdefault(type, []).append((nonce, refused))
        if not refused:
            self.accepted[type] = version
        for name, text in resources.items():
            self.learn((type, name), text)
        for key in self.gone(type, resources):
            self.lose(key)

    @rule(seconds=st.sampled_from([1.0, 7.0, 15.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for key in [key for key, at in self.asked.items() if at + 15 <= self.now]:
            self.lose(key)
        self.heard(self.authority.review(self.conversation.due(self.now)))

    # -- what differs between the protocols

    def new_server(self) -> Server:
        return Server()

    def reading(self, type: ResourceType, version: str, nonce: str, items: tuple[Item, ...]) -> Reading:
        return Reading(type, version, nonce, items)

    def gone(self, type: ResourceType, resources: dict[str, str]) -> list[Key]:
        """What a response without them says of the others."""
        return [key for key in self.value.keys() | self.bad if key[0] is type is CDS and key[1] not in resources]

    # -- the only server there is

    def engage(self, server: ServerConfig) -> Conversation:
        return self.conversation

    def release(self, conversation: Conversation) -> None:
        raise AssertionError("the only server is never released")

    # -- what must be so

    @invariant()
    def watchers_believe_what_is_so(self) -> None:
        for key in self.watched:
            expected = self.expected(key)
            if expected is not None:
                assert self.told.get(key) == expected, key

    @invariant()
    def the_clock_is_set_to_the_earliest_wait(self) -> None:
        assert self.conversation.next_deadline == min(self.asked.values(), default=float("inf")) + 15

    def server_believes_what_is_so(self) -> None:
        assert self.server is not None
        assert self.server.nodes == (1 if self.server.names else 0)
        for type in (CDS, EDS):
            wanted = {name for kind, name in self.watched if kind is type}
            assert self.server.names.get(type, set()) == wanted
            if type in self.server.names:
                assert self.server.version.get(type, self.accepted[type]) == self.accepted[type]
                assert self.server.nonce[type] == self.nonces.get(type, "")
                if owed := self.owed.get(type):
                    refusals = [each for each in owed if each[1]]
                    assert self.server.answers[type] == list(dict.fromkeys((*refusals[:1], owed[-1])))

    # -- the model's own memory

    def expected(self, key: Key) -> str | None:
        if key in self.value:
            return f"{self.value[key]} {'failed' if self.failed else 'invalid' if key in self.bad else 'well'}"
        if key in self.absent:
            return "absent"
        return "invalid" if key in self.bad else "failed" if self.failed else None

    def heard(self, changes: Changes) -> None:
        for key, state in changes.items():
            if key in self.watched:
                assert self.told.get(key) != shown(state), "told what was known"
                self.told[key] = shown(state)

    def learn(self, key: Key, text: str) -> None:
        if key not in self.remembered:
            return
        self.asked.pop(key, None)
        self.absent.discard(key)
        if text == BAD:
            self.bad.add(key)
        else:
            self.bad.discard(key)
            self.value[key] = text

    def lose(self, key: Key) -> None:
        self.asked.pop(key, None)
        self.value.pop(key, None)
        self.bad.discard(key)
        self.absent.add(key)

    def forget(self) -> None:
        """What is no longer watched goes when something is said, not before."""
        for memory in (self.value, self.asked):
            for key in memory.keys() - self.watched:
                del memory[key]
        self.remembered &= self.watched
        self.bad &= self.watched
        self.absent &= self.watched


def item(name: str, text: str) -> Item:
    parsed = Parsed(name, None, (BAD,)) if text == BAD else Parsed(name, text, ())
    return Item((name, text.encode()), parsed)


def shown(state: ResourceState) -> str:
    status = state.error or state.ambient
    reason = "well" if status is None else "invalid" if "invalid resource" in status.message else "failed"
    if state.error is None:
        return f"{state.value} {reason}"
    return "absent" if state.absent else reason


class DeltaMachine(ConversationMachine):
    """A response says which are gone: here all that we want and that it does not bring, if it brings "c"."""

    dialect = Delta()

    def new_server(self) -> Server:
        return DeltaServer()

    def reading(self, type: ResourceType, version: str, nonce: str, items: tuple[Item, ...]) -> Reading:
        names = {item.raw[0] for item in items}
        removed = tuple(sorted(set("abc") - names)) if "c" in names else ()
        return Reading(type, version, nonce, items, removed=removed, partial=True)

    def gone(self, type: ResourceType, resources: dict[str, str]) -> list[Key]:
        removed = set("abc") - resources.keys() if "c" in resources else set()
        return [(type, name) for name in removed if (type, name) in self.remembered]


TestConversation = ConversationMachine.TestCase
TestDeltaConversation = DeltaMachine.TestCase
TestConversation.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestDeltaConversation.settings = TestConversation.settings
