"""The conversation with one xDS server, without a socket or a clock (A27, A46, A53, A88; SPEC §7).

For each type of resource the client says which names it wants, the server sends what it has of
them, and the client answers each response: it accepts it (ACK) or refuses it (NACK: the last
version it accepted, and why). How that is said is the dialect's.

Three kinds of memory, by how long they last:

* `Resource`, a name and what is known of it, is shared with the other servers of its authority;
* `_Subscription`, a type's names and what this server gave for them, lives as long as this;
* `_Stream`, nonces, what was asked and what still has to be said, dies with the stream.

A shell drives it: `stream_opened`; then `next_request` until it is None, and `sent` for each that
went out; `read` and `received` for each response; `due` when `next_deadline` has come; `stream_ended`.
What comes back is the resources of which something new is known.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trxds.ground.clock import TimeOfDay, since_1970
from trxds.resources.protos import DecodeError
from trxds.resources.slices import Slices
from trxds.resources.types import RESOURCE_TYPES, ParseContext, Parsed, ResourceType

from .bootstrap import Node, ServerConfig
from .dataerrors import NOT_FOUND, DataErrors
from .request import Ask, Dialect, introduce, refuse
from .resource import CacheState, Resource, Trouble, Update
from .response import NOTHING, Failed, Ignored, Item, Raw, Reading, invalid, known_type
from .sotw import StateOfTheWorld

log = logging.getLogger("trxds.ads")


@dataclass(slots=True, eq=False)
class _Subscription:
    """The resources of one type, and what this server sent of them."""

    version: str = ""  # the last that we accepted whole
    resources: dict[str, Resource] = field(default_factory=dict)
    unwanted: set[str] = field(default_factory=set)  # go when the next request is composed
    given: dict[str, Update] = field(default_factory=dict)  # what each came as, last
    parsed: dict[Raw, Parsed] = field(default_factory=dict)  # and what the bytes of those were parsed to

    def versions(self) -> dict[str, str]:
        """Of all that we have; empty for what is not from this server, or not as it sent it last."""
        have = (resource for resource in self.resources.values() if resource.value is not None)
        return {resource.name: self._version(resource) for resource in have}

    def _version(self, resource: Resource) -> str:
        update = self.given.get(resource.name)
        return update.version if update is not None and update is resource.accepted else ""

    def note(self, name: str, update: Update, parsed: Parsed) -> None:
        self.forget(name)
        self.given[name] = update
        self.parsed[update.raw] = parsed

    def forget(self, name: str) -> None:
        if update := self.given.pop(name, None):
            self.parsed.pop(update.raw, None)


@dataclass(frozen=True, slots=True)
class _Answer:
    """To the response of that nonce; without errors it is an ACK. `version` is the last one accepted by then."""

    nonce: str
    version: str
    errors: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _Stream:
    to_say: dict[ResourceType, None]  # types that may have something to say, in the order it came up
    introduced: bool = False  # the node goes with the first request only
    heard: bool = False  # the end of a stream that answered is no failure
    nonces: dict[ResourceType, str] = field(default_factory=dict)
    answers: dict[ResourceType, list[_Answer]] = field(default_factory=dict)  # not sent yet: one or two of a type
    asking: frozenset[str] = frozenset()  # the names in the request that is being sent
    asked: dict[ResourceType, frozenset[str]] = field(default_factory=dict)
    deadlines: dict[Resource, float] = field(default_factory=dict)  # all as long: the first is the earliest


class Conversation:
    """What to say to `server`, and what its answers mean for each resource subscribed.

    `failure` is why it cannot be reached at present, and `failing_since` the time of day since when; `answers` is
    that it did, the last time it was tried. `time_of_day` is asked only for what happens just then.
    """

    def __init__(
        self,
        server: ServerConfig,
        node: Node,
        dialect: Dialect | None = None,
        data_errors: DataErrors | None = None,
        time_of_day: TimeOfDay = since_1970,
    ) -> None:
        self.server = server
        self.dialect: Dialect = dialect or StateOfTheWorld()
        self.failure: str | None = None
        self.failing_since = ""
        self.answers = False
        self._node = node
        self._data_errors = data_errors or DataErrors()
        self._time_of_day = time_of_day
        # In the order in which a new stream asks: LDS, RDS, CDS, EDS.
        self._subscriptions = {type: _Subscription() for type in RESOURCE_TYPES.values()}
        self._stream: _Stream | None = None

    def __repr__(self) -> str:
        names = sum(len(s.resources) - len(s.unwanted) for s in self._subscriptions.values())
        return f"<Conversation {self.server.uri} {'open' if self._stream else 'closed'}, {names} resources>"

    @property
    def connected(self) -> bool:
        """There is a stream."""
        return self._stream is not None

    # -- what watchers want

    @property
    def wanted(self) -> bool:
        """Anything is subscribed, so a stream has something to say."""
        return any(len(s.resources) > len(s.unwanted) for s in self._subscriptions.values())

    def subscribe(self, resource: Resource) -> None:
        """Want a resource from now on. Wanting it twice is once."""
        subscription = self._subscriptions[resource.type]
        subscription.unwanted.discard(resource.name)
        if resource.name not in subscription.resources:
            subscription.resources[resource.name] = resource
            resource.asked_of += 1
            self._mention(resource.type)

    def unsubscribe(self, resource: Resource) -> None:
        """Want it no longer. It is forgotten when the next request is composed: a watcher may drop
        a resource and take it again in one step, and the server shall not notice."""
        subscription = self._subscriptions[resource.type]
        if resource.name in subscription.resources:
            subscription.unwanted.add(resource.name)
            self._mention(resource.type)

    def forget_versions(self) -> None:
        """Another server may replace what this one gave, so it has to give everything again."""
        for subscription in self._subscriptions.values():
            subscription.version = ""
            subscription.given.clear()
            subscription.parsed.clear()

    # -- what we say

    def stream_opened(self) -> None:
        """A stream begins: everything has to be asked anew, with the versions we have and no nonce."""
        self._stream = _Stream(to_say=dict.fromkeys(self._subscriptions))

    def next_request(self) -> Any | None:
        """The next thing to say, or None. Whatever came up since the last one is in it."""
        stream = self._stream
        while stream is not None and stream.to_say:
            type = next(iter(stream.to_say))
            del stream.to_say[type]
            request = self._compose(type, stream)
            if request is not None:
                return request
        return None

    def sent(self, request: Any, now: float) -> None:
        """A request went out. Only now the wait begins for what it asked the first time on this stream."""
        stream, type = self._stream, RESOURCE_TYPES[request.type_url]
        if stream is None:
            return
        before, stream.asked[type] = stream.asked.get(type, frozenset()), stream.asking
        resources = self._subscriptions[type].resources
        for name in stream.asking - before:
            if name in resources and resources[name].awaited:
                stream.deadlines[resources[name]] = now + self._data_errors.wait

    def _mention(self, type: ResourceType) -> None:
        if self._stream is not None:
            self._stream.to_say[type] = None

    def _compose(self, type: ResourceType, stream: _Stream) -> Any | None:
        subscription = self._subscriptions[type]
        self._forget_unwanted(type)
        names, asked = subscription.resources.keys(), stream.asked.get(type)
        if not names and asked is None:
            return None  # an empty list as a type's first request would mean: everything
        answer = self._next_answer(type, stream)
        if answer is None and names == asked:
            return None
        stream.asking = frozenset(names)
        versions = subscription.versions() if asked is None else {}
        said = answer or _Answer(stream.nonces.get(type, ""), subscription.version, ())
        ask = Ask(type, names, asked, said.version, versions, said.nonce, answers=answer is not None)
        request = self.dialect.request(ask)
        if not stream.introduced:
            stream.introduced = True
            introduce(request, self._node)
        if said.errors:
            refuse(request, said.errors)
        return request

    def _next_answer(self, type: ResourceType, stream: _Stream) -> _Answer | None:
        answers = stream.answers.pop(type, [])
        if len(answers) > 1:
            stream.answers[type] = answers[1:]
            stream.to_say[type] = None
        return answers[0] if answers else None

    def _owe(self, reading: Reading, stream: _Stream) -> None:
        """The newest answer is enough, but no refusal is overtaken: the server would never hear of it."""
        answers = stream.answers.setdefault(reading.type, [])
        del answers[1 if answers and answers[0].errors else 0 :]
        answers.append(_Answer(reading.nonce, self._subscriptions[reading.type].version, reading.errors))
        stream.to_say[reading.type] = None

    def _forget_unwanted(self, type: ResourceType) -> None:
        subscription = self._subscriptions[type]
        for name in subscription.unwanted:
            resource = subscription.resources.pop(name)
            subscription.forget(name)
            resource.asked_of -= 1
            if not resource.wanted:
                if resource.kept_though_deleted:
                    log.info('%s resource "%s", which the server deleted, is wanted no longer', type.kind, name)  # A53
                resource.forget()
            if self._stream is not None:
                self._stream.deadlines.pop(resource, None)
        subscription.unwanted.clear()

    # -- what we hear

    def known(self, type: ResourceType) -> Mapping[Raw, Parsed]:
        """What the bytes of the resources we have were parsed to, so that they need not be again."""
        return self._subscriptions[type].parsed

    def read(self, message: bytes, context: ParseContext) -> Slices[Reading | Ignored]:
        """What a message of the stream says, for `received`."""
        try:
            response = self.dialect.response.FromString(message)
        except DecodeError:
            return Ignored(f"{len(message)} bytes that are no {self.dialect.response.DESCRIPTOR.name}")
        type = known_type(response)
        if type is None:
            return Ignored(f"a response of unknown type {response.type_url!r}")
        return (yield from self.dialect.read(response, type, self.known(type), context))

    def received(self, reading: Reading, now: float) -> list[Resource]:
        """Take what is good, keep or drop what we had of what is not, and owe the server an answer.

        What nobody asked for is ignored, but its errors are reported like all others.
        """
        stream, subscription = self._stream, self._subscriptions[reading.type]
        if stream is None:
            return []  # closed while it was being read
        stream.heard = True
        stream.nonces[reading.type] = reading.nonce
        if not reading.errors:
            subscription.version = reading.version
        self._owe(reading, stream)
        self.failure, self.answers = None, True
        came = self._update(reading.version, now)
        touched = [resource for item in reading.items if (resource := self._take(item, reading, came))]
        touched += [resource for each in reading.failed if (resource := self._fail(each, reading, came))]
        touched += [self._delete(resource, came) for resource in self._gone(reading)]
        return touched

    def _heard_of(self, type: ResourceType, name: str | None) -> Resource | None:
        """The resource of that name, if anybody wants it. It is waited for no longer."""
        resource = self._subscriptions[type].resources.get(name) if name is not None else None
        if resource is not None and self._stream is not None:
            self._stream.deadlines.pop(resource, None)
        return resource

    def _update(self, version: str, now: float) -> Update:
        """An event of now; of a resource that came it still lacks the bytes."""
        return Update(version, NOTHING, now, self.server.uri, self._time_of_day(now))

    def _take(self, item: Item, reading: Reading, came: Update) -> Resource | None:
        """The resource, if it came as anything else than last time."""
        parsed = item.parsed
        resource = self._heard_of(reading.type, parsed.name)
        if resource is None or parsed is resource.parsed:
            return None
        version = came.version if item.version is None else item.version
        update = Update(version, item.raw, came.at, came.server, came.when)
        self._subscriptions[reading.type].note(resource.name, update, parsed)
        if parsed.errors:
            reason = f"invalid resource: {invalid(parsed.errors, resource.type)}"
            resource.refuse(update, parsed, self._trouble(reason), drop=self._data_errors.drop_refused)
            return resource
        if resource.kept_though_deleted:
            log.info('%s resource "%s" is back', resource.type.kind, resource.name)  # A53
        resource.accept(update, parsed)
        return resource

    def _fail(self, failed: Failed, reading: Reading, came: Update) -> Resource | None:
        """The server says why it has nothing to give (xRFC TP3)."""
        resource = self._heard_of(reading.type, failed.name)
        if resource is None:
            return None
        self._subscriptions[reading.type].forget(resource.name)
        resource.fail(
            CacheState.RECEIVED_ERROR,
            came,
            self._trouble(f"the server reports {failed}"),
            drop=self._data_errors.drop_failed(failed.code),
            absent=failed.code == NOT_FOUND,
        )
        return resource

    def _gone(self, reading: Reading) -> list[Resource]:
        """What the server says is gone, or had and leaves out of a response that is complete.

        A resource never seen may be left out: the response may answer an earlier request. And when
        a name could not be read it may be any.
        """
        resources = self._subscriptions[reading.type].resources
        gone = [resources[name] for name in reading.removed if name in resources]
        if reading.type.full_state and not reading.partial:
            names = {item.parsed.name for item in reading.items}.union(each.name for each in reading.failed)
            left_out = [] if None in names else [resources[name] for name in resources.keys() - names]
            gone += [resource for resource in left_out if resource.seen]
        return [resource for resource in gone if resource.state is not CacheState.DOES_NOT_EXIST]

    def _delete(self, resource: Resource, came: Update) -> Resource:
        self._heard_of(resource.type, resource.name)
        self._subscriptions[resource.type].forget(resource.name)
        drop = self._data_errors.drop_deleted or resource.value is None
        reason = "does not exist, deleted by the server" + ("" if drop else "; the last one is kept")
        resource.fail(CacheState.DOES_NOT_EXIST, came, self._trouble(reason), drop=drop, absent=True)
        return resource

    def _trouble(self, reason: str) -> Trouble:
        return Trouble(f"server {self.server.uri}", reason)

    # -- what time tells

    @property
    def next_deadline(self) -> float:
        """When `due` has something to say; infinite if never."""
        deadlines = self._stream.deadlines if self._stream is not None else {}
        return next(iter(deadlines.values()), math.inf)

    def due(self, now: float) -> list[Resource]:
        """The resources that did not come in time, neither from here nor from elsewhere."""
        late: list[Resource] = []
        while self._stream is not None and self.next_deadline <= now:
            resource = next(iter(self._stream.deadlines))
            del self._stream.deadlines[resource]
            if resource.awaited:
                self._give_up(resource, now)
                late.append(resource)
        return late

    def _give_up(self, resource: Resource, now: float) -> None:
        rules = self._data_errors
        self._subscriptions[resource.type].forget(resource.name)
        absent = rules.late_is_absent
        resource.fail(
            CacheState.DOES_NOT_EXIST if absent else CacheState.TIMEOUT,
            self._update("", now),
            self._trouble(f"{'does not exist' if absent else 'no answer'}, asked {rules.wait:g} s before"),
            absent=absent,
        )

    # -- the end

    def stream_ended(self, reason: str, now: float) -> None:
        """A stream that never answered is a failure; the end of one that did is not."""
        stream, self._stream = self._stream, None
        self._let_go()
        if stream is None or not stream.heard:
            if self.failure is None:
                self.failing_since = self._time_of_day(now)
            self.failure, self.answers = reason, False

    def close(self) -> None:
        """This server is asked no longer."""
        self._stream = None
        for subscription in self._subscriptions.values():
            subscription.unwanted.update(subscription.resources)
        self._let_go()

    def _let_go(self) -> None:
        for type in self._subscriptions:
            self._forget_unwanted(type)
