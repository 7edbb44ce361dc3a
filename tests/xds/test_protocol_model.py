"""The conversation against a model: a server and watchers that only remember what they were told.

The model knows nothing of requests that coalesce or of who is told when. It says what must be
true once everything is said: what the server believes we want and accepted, and what each
watcher believes of its resource, whatever the server's features make of bad news (A53, A88).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import StatusCode
from trxds.resources.cooperative_parse import run_at_once
from trxds.resources.types import CDS, EDS, RESOURCE_TYPES, ParseContext, Parsed, ResourceType
from trxds.xds.ads_stream_state import AdsStreamState
from trxds.xds.authority import Authority
from trxds.xds.bootstrap import Node, ServerConfig
from trxds.xds.delta import DeltaProtocol
from trxds.xds.discovery_request import ProtocolVariant
from trxds.xds.discovery_response import ParsedResource, ParsedResponse, ResourceError, UnknownResponse
from trxds.xds.resource import Changes
from trxds.xds.resource_error_policy import resource_error_policy
from trxds.xds.sotw import SotwProtocol

pytestmark = pytest.mark.slow

Key = tuple[ResourceType, str]

TYPES = st.sampled_from([CDS, EDS])
NAMES = st.sampled_from("abc")
BAD = "bad"
RESOURCES = st.fixed_dictionaries({}, optional=dict.fromkeys("abc", st.sampled_from(["1", "2", BAD])))
CODES = st.sampled_from([StatusCode.NOT_FOUND, StatusCode.PERMISSION_DENIED, StatusCode.INTERNAL])
FEATURES = st.sets(
    st.sampled_from(["ignore_resource_deletion", "fail_on_data_errors", "resource_timer_is_transient_error"])
)


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
        answers = self.answers.setdefault(type, [])
        if request.response_nonce and request.response_nonce not in (nonce for nonce, _ in answers):
            answers.append((request.response_nonce, request.HasField("error_detail")))
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
    dialect: ProtocolVariant = SotwProtocol()

    @initialize(features=FEATURES, a88=st.booleans(), watched=st.sets(st.tuples(TYPES, NAMES), min_size=2))
    def begin(self, features: set[str], a88: bool, watched: set[Key]) -> None:
        """With a stream that has asked for what is watched: from nothing at all it is a long way to anything."""
        server = ServerConfig("plane:1")
        self.rules = resource_error_policy(features, a88=a88)
        self.conversation = AdsStreamState(server, Node("n"), self.dialect, self.rules)
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
        self.letters: dict[Key, str] = {}  # the same with all words
        self.value: dict[Key, str] = {}
        self.trouble: dict[Key, str] = {}  # with its last news; a value may be used none the less
        self.asked: dict[Key, float] = {}
        for type, name in sorted(watched, key=str):
            self.watch(type, name)
        self.open_stream()
        self.say_everything()

    # -- what may happen

    @rule(type=TYPES, name=NAMES)
    def watch(self, type: ResourceType, name: str) -> None:
        self.watched.add((type, name))
        self.remembered.add((type, name))
        self.told.pop((type, name), None)
        self.letters.pop((type, name), None)
        self.heard(self.authority.watch(type, name, 0.0))

    @rule(type=TYPES, name=NAMES)
    def leave(self, type: ResourceType, name: str) -> None:
        if (type, name) in self.watched:
            self.watched.discard((type, name))
            self.told.pop((type, name), None)
            self.authority.unwatch(type, name)

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
        while (request := self.conversation.next_request(self.now)) is not None:
            self.server.hears(request)
            self.conversation.sent(request, self.now)
        for key in self.watched - self.value.keys():
            if self.trouble.get(key) not in (UNANSWERED, DELETED) and key[1] not in before.get(key[0], set()):
                self.asked[key] = self.now
        self.server_believes_what_is_so()
        self.owed = {}

    @precondition(lambda self: self.server is not None)
    @rule(type=TYPES, resources=RESOURCES)
    def respond(self, type: ResourceType, resources: dict[str, str]) -> None:
        """With what it was asked for: test_acks_model.py has the servers that send more, and answers that cross."""
        resources = {name: text for name, text in resources.items() if self.was_asked(type, name)}
        if not self.was_asked(type):
            return
        items = tuple(self.item(type, name, text) for name, text in resources.items())
        self.receive(type, items, (), refused=BAD in resources.values())
        for name, text in resources.items():
            self.learn((type, name), text)
        for key in self.gone(type, set(resources)):
            self.delete(key)

    @precondition(lambda self: self.server is not None)
    @rule(type=TYPES, name=NAMES, code=CODES)
    def respond_with_an_error_in_its_place(self, type: ResourceType, name: str, code: int) -> None:
        if not self.was_asked(type, name):
            return
        self.receive(type, (), (ResourceError(name, code, "sorry"),), refused=False)
        self.learn_why_not((type, name), code)
        for key in self.gone(type, {name}):
            self.delete(key)

    @precondition(lambda self: self.server is not None)
    @rule(message=st.sampled_from([b"\xff\xff no protobuf", b"", b"\x22\x07unknown"]))
    def respond_with_what_nobody_knows(self, message: bytes) -> None:
        """No answer is owed, nothing is learned, and the stream has not answered."""
        assert isinstance(run_at_once(self.conversation.read(message, ParseContext())), UnknownResponse)

    @rule(seconds=st.sampled_from([1.0, 7.0, 15.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for key in [key for key, at in self.asked.items() if at + self.rules.wait <= self.now]:
            del self.asked[key]
            self.trouble[key] = UNANSWERED if self.rules.late_is_absent else "late"
        self.heard(self.authority.review(self.conversation.expire_timers(self.now)))

    def receive(
        self, type: ResourceType, items: tuple[ParsedResource, ...], failed: tuple[ResourceError, ...], *, refused: bool
    ) -> None:
        self.count += 1
        version, nonce = f"v{self.count}", f"n{self.count}"
        reading = self.reading(type, version, nonce, items, failed)
        self.heard(self.authority.review(self.conversation.received(reading, self.now)))
        self.answered, self.failed = True, False
        self.nonces[type] = nonce
        self.owed.setdefault(type, []).append((nonce, refused))
        if not refused:
            self.accepted[type] = version

    def item(self, type: ResourceType, name: str, text: str) -> ParsedResource:
        """What came before in the same bytes is not parsed again, so it is the same object."""
        if text == BAD:  # each time with other words: a NACK that says nothing new would have to wait
            return ParsedResource((name, b"bad %d" % self.count), Parsed(name, None, (f"{BAD} {self.count}",)))
        raw, parsed = (name, text.encode()), Parsed(name, text, ())
        return ParsedResource(raw, self.conversation.parsed_resources(type).get(raw) or parsed)

    def was_asked(self, type: ResourceType, name: str | None = None) -> bool:
        assert self.server is not None
        names = self.server.names.get(type)
        return names is not None and (name is None or name in names)

    # -- what differs between the protocols

    def new_server(self) -> Server:
        return Server()

    def answers_to(self, owed: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
        """The first refusal and the last answer."""
        refusals = [each for each in owed if each[1]]
        return list(dict.fromkeys((*refusals[:1], owed[-1])))

    def reading(
        self,
        type: ResourceType,
        version: str,
        nonce: str,
        items: tuple[ParsedResource, ...],
        failed: tuple[ResourceError, ...],
    ) -> ParsedResponse:
        return ParsedResponse(type, version, nonce, items, failed)

    def gone(self, type: ResourceType, names: set[str]) -> list[Key]:
        """What a response of these says of the others: those that came, good or bad, are not there any more."""
        came = self.value.keys() | {key for key, trouble in self.trouble.items() if trouble == "invalid"}
        return [key for key in came if key[0] is type is CDS and key[1] not in names]

    # -- the only server there is

    def get_or_create_stream(self, server: ServerConfig) -> AdsStreamState:
        return self.conversation

    def release_stream(self, conversation: AdsStreamState) -> None:
        raise AssertionError("the only server is never released")

    # -- what must be so

    @invariant()
    def watchers_believe_what_is_so(self) -> None:
        for key in self.watched:
            expected = self.expected(key)
            if expected is not None:
                assert self.told.get(key) == expected, key
            else:  # nothing, or that an earlier failure is over
                assert self.told.get(key) in (None, "awaited"), key

    @invariant()
    def the_clock_is_set_to_the_earliest_wait(self) -> None:
        assert self.conversation.next_deadline == min(self.asked.values(), default=float("inf")) + self.rules.wait

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
                    assert self.server.answers[type] == self.answers_to(owed)

    # -- the model's own memory

    def expected(self, key: Key) -> str | None:
        trouble = self.trouble.get(key, "")
        if key in self.value:
            return f"{self.value[key]} {'failed' if self.failed else trouble or 'well'}"
        return trouble or ("failed" if self.failed else None)

    def heard(self, changes: Changes) -> None:
        for key, state in changes.items():
            if key in self.watched:
                text = f"{shown(state)}: {state.error or state.ambient}"
                assert self.letters.get(key) != text, "told what was known"
                self.told[key], self.letters[key] = shown(state), text

    def learn(self, key: Key, text: str) -> None:
        if key not in self.remembered:
            return
        self.asked.pop(key, None)
        if text == BAD:
            self.trouble[key] = "invalid"
            self.keep(key, drop=self.rules.drop_rejected)
        else:
            self.trouble.pop(key, None)
            self.value[key] = text

    def learn_why_not(self, key: Key, code: int) -> None:
        if key in self.remembered:
            self.asked.pop(key, None)
            is_about_it = code in (StatusCode.NOT_FOUND, StatusCode.PERMISSION_DENIED)
            self.keep(key, drop=self.rules.drop_rejected and is_about_it)
            absent = code == StatusCode.NOT_FOUND and key not in self.value
            self.trouble[key] = f"{'absent, ' if absent else ''}reported {StatusCode(code).name}"

    def delete(self, key: Key) -> None:
        if self.trouble.get(key) not in (UNANSWERED, DELETED, KEPT):
            self.asked.pop(key, None)
            self.keep(key, drop=self.rules.drop_deleted)
            self.trouble[key] = KEPT if key in self.value else DELETED

    def keep(self, key: Key, *, drop: bool) -> None:
        if drop:
            self.value.pop(key, None)

    def forget(self) -> None:
        """What is no longer watched goes when something is said, not before."""
        for memory in (self.value, self.asked, self.trouble):
            for key in memory.keys() - self.watched:
                del memory[key]
        self.remembered &= self.watched


UNANSWERED, DELETED, KEPT = "absent, unanswered", "absent, deleted", "kept though deleted"
REASONS = {
    "invalid resource": "invalid",
    "cannot reach": "failed",
    "the last one is kept": KEPT,
    "no answer": "late",
    "deleted by the server": "deleted",
    "does not exist, asked": "unanswered",
    "has sent nothing of it yet": "awaited",
    "there is no stream to the server yet": "awaited",
}


def shown(state: ResourceUpdate) -> str:
    """The value and what is wrong with it, or why there is none; no code but one reaches watchers (A54)."""
    status = state.error or state.ambient
    assert status is None or status.code is StatusCode.UNAVAILABLE
    reason = "well" if status is None else in_short(status.message)
    if state.error is None:
        return f"{state.value} {reason}"
    return f"absent, {reason}" if state.absent else reason


def in_short(message: str) -> str:
    if reported := re.search("the server reports ([A-Z_]+): sorry", message):
        return f"reported {reported[1]}"
    return next(short for text, short in REASONS.items() if text in message)


class DeltaMachine(ConversationMachine):
    """A response says which are gone: here all that we want and that it does not bring, if it brings "c"."""

    dialect = DeltaProtocol()

    def new_server(self) -> Server:
        return DeltaServer()

    def answers_to(self, owed: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
        return owed

    def reading(
        self,
        type: ResourceType,
        version: str,
        nonce: str,
        items: tuple[ParsedResource, ...],
        failed: tuple[ResourceError, ...],
    ) -> ParsedResponse:
        removed = self.removed({item.raw[0] for item in items} | {each.name for each in failed})
        return ParsedResponse(type, version, nonce, items, failed, removed=tuple(sorted(removed)), partial=True)

    def gone(self, type: ResourceType, names: set[str]) -> list[Key]:
        return [(type, name) for name in self.removed(names) if (type, name) in self.remembered]

    def removed(self, names: set[str]) -> set[str]:
        return set("abc") - names if "c" in names else set()


TestConversation = ConversationMachine.TestCase
TestDeltaConversation = DeltaMachine.TestCase
TestConversation.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestDeltaConversation.settings = TestConversation.settings
