"""An authority of three servers that fail, answer and are asked in any order (A71, A95).

The model has no memory of decisions: it looks at what is so, and says what must follow.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trxds.core.resource_update import ResourceUpdate
from trxds.resources.types import EDS, Parsed
from trxds.xds.ads_stream_state import AdsStreamState
from trxds.xds.authority import Authority
from trxds.xds.bootstrap import Node, ServerConfig
from trxds.xds.discovery_response import ParsedResource, ParsedResponse
from trxds.xds.resource import CacheState, Changes

pytestmark = pytest.mark.slow

SERVERS = [ServerConfig(f"{name}:1") for name in "abc"]
PLACES = st.integers(0, 2)
NAMES = st.sampled_from("xyz")


class FallbackMachine(RuleBasedStateMachine):
    @initialize(impatient=st.booleans())
    def begin(self, impatient: bool) -> None:
        self.impatient = impatient
        self.asked: list[AdsStreamState] = []
        self.open: set[AdsStreamState] = set()
        self.idle: set[AdsStreamState] = set()  # not tried since nothing was wanted
        self.authority = Authority(SERVERS, self, "n", fallback_on_reachability_only=impatient)
        self.watched: set[str] = set()
        self.told: dict[str, ResourceUpdate] = {}
        self.count = 0

    # -- the supply of servers

    def get_or_create_stream(self, server: ServerConfig) -> AdsStreamState:
        assert server is SERVERS[len(self.asked)], "in the order of the list, each once"
        assert not self.asked or (self.hopeless and self.needy), "without need"
        self.asked.append(AdsStreamState(server, Node("n")))
        return self.asked[-1]

    def release_stream(self, conversation: AdsStreamState) -> None:
        assert conversation.server is not SERVERS[0], "the first is never given up"
        self.asked.remove(conversation)
        self.open.discard(conversation)
        self.idle.discard(conversation)
        conversation.close()

    # -- what may happen

    @rule(name=NAMES)
    def watch(self, name: str) -> None:
        self.watched.add(name)
        self.told.pop(name, None)
        self.hear(self.authority.watch(EDS, name, 0.0))

    @precondition(lambda self: self.watched)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.watched)))
        self.watched.remove(name)
        self.told.pop(name, None)
        self.authority.unwatch(EDS, name)

    @rule(place=PLACES)
    def open_stream(self, place: int) -> None:
        if place < len(self.asked) and self.asked[place] not in self.open:
            self.open.add(self.asked[place])
            self.asked[place].stream_opened()
            self.everything_said(self.asked[place])

    @rule(place=PLACES)
    def say_everything(self, place: int) -> None:
        if place < len(self.asked) and self.asked[place] in self.open:
            self.everything_said(self.asked[place])

    @rule(place=PLACES, names=st.sets(NAMES))
    def answer(self, place: int, names: set[str]) -> None:
        if place >= len(self.asked) or self.asked[place] not in self.open:
            return
        self.count += 1
        items = tuple(
            ParsedResource((name, b"%d" % self.count), Parsed(name, f"{place}.{self.count}")) for name in sorted(names)
        )
        reading = ParsedResponse(EDS, f"v{self.count}", f"n{self.count}", items)
        self.hear(self.authority.review(self.asked[place].received(reading, 0.0)))
        assert len(self.asked) == place + 1, "nobody below one that answers"
        for name in names & self.watched:
            assert self.told[name].value == f"{place}.{self.count}"

    @rule(place=PLACES)
    def end_stream(self, place: int) -> None:
        if place < len(self.asked):
            self.open.discard(self.asked[place])
            self.idle.discard(self.asked[place])
            self.asked[place].stream_ended("refused", 0.0)
            self.hear(self.authority.review([]))

    @precondition(lambda self: not self.watched)
    @rule(place=PLACES)
    def become_idle(self, place: int) -> None:
        if place < len(self.asked) and self.asked[place] not in self.open:
            self.idle.add(self.asked[place])
            self.asked[place].become_idle()

    # -- what must be so

    @invariant()
    def another_is_asked_if_and_only_if_there_is_need(self) -> None:
        if self.hopeless and self.needy:
            assert len(self.asked) == len(SERVERS)
        assert all(each.failure or each in self.idle for each in self.asked[:-1]), "a lower one without a failure above"

    @invariant()
    def watchers_know_of_the_outage_and_those_with_a_value_of_its_end(self) -> None:
        hopeless = self.hopeless
        for resource in self.authority.resources:
            state = self.told.get(resource.name)
            if state is None:
                assert not hopeless
                assert resource.state is CacheState.REQUESTED
            else:
                told = (state.ambient or state.error) is not None
                # A server that is back and says nothing of a resource changes nothing for who has no value.
                assert told if hopeless else not told or resource.state is CacheState.REQUESTED

    @invariant()
    def all_servers_are_asked_for_all_that_is_watched(self) -> None:
        assert {resource.name for resource in self.authority.resources} == self.watched
        for resource in self.authority.resources:
            assert resource.server_refcount == len(self.asked)

    # -- the machine's own

    @property
    def hopeless(self) -> bool:
        """All that are asked have failed."""
        return bool(self.asked) and all(each.failure for each in self.asked)

    @property
    def needy(self) -> bool:
        """Something never came, or that does not matter."""
        return self.impatient or any(each.awaited and each.value is None for each in self.authority.resources)

    def everything_said(self, conversation: AdsStreamState) -> None:
        """An ACK leaves out a name that came while nobody wanted it; a request behind it asks for it."""
        request = None
        while (following := conversation.next_request(0.0)) is not None:
            request = following
            conversation.sent(request, 0.0)
            assert set(request.resource_names) <= self.watched
        assert request is None or set(request.resource_names) == self.watched

    def hear(self, changes: Changes) -> None:
        for (_, name), state in changes.items():
            self.told[name] = state


TestFallback = FallbackMachine.TestCase
TestFallback.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
