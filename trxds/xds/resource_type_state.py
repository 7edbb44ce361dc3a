"""The state of one type of resource on one stream: requested names, nonces, ACKs and NACKs.

In state of the world a request does three things at once: it names all wanted resources, it answers the response whose
nonce it has, and a name in it tells the server that the client has what was sent under that name. The server then
sends that resource again only when it changes, and it ignores a request with an older nonce. So there are two rules
here beyond the protocol's own (grpc/grpc-go#8125, grpc/grpc#38698):

* A resource that is wanted no longer is kept until a request without its name went out that has the nonce of the last
  response with it. A name that is wanted again before that is served from what was kept.
* An ACK leaves out the names that came while the client did not take them. The request after it asks for them.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Set
from math import inf

from msgspec import Struct, structs

from .discovery_response import ParsedResponse

ACK_SIZE = 200  # bytes, without its texts

MIN_NACK_DELAY = 0.1  # seconds between a NACK and the first one that repeats it; doubled for each one after
MAX_NACK_DELAY = 1.0

_AT_ONCE = -inf


class PendingAck(Struct, frozen=True):
    """The answer to one response, not sent yet; with errors it is a NACK."""

    nonce: str
    version: str  # the type's last accepted version at that time
    errors: tuple[str, ...]
    response: int  # the number of the response of this type on this stream, from 1
    due: float

    @property
    def size(self) -> int:
        """Return roughly the bytes that the answer takes while it waits."""
        return ACK_SIZE + len(self.nonce) + len(self.version) + sum(map(len, self.errors))


class NackPacing:
    """The delay of NACKs that repeat an earlier NACK for the same type of resource on the same stream.

    go-control-plane sends a rejected resource again as soon as it gets the NACK. Without a delay that makes thousands
    of NACKs a second until somebody repairs the resource. So the first NACK goes at once, and those that repeat it
    wait, each longer than the last. NACKs are compared by resource: the order of the resources in a response, and with
    it the index in the error's text, may differ each time.
    """

    __slots__ = ("_delay", "_due", "_rejected")

    def __init__(self) -> None:
        self._rejected: dict[str | None, list[str]] = {}  # the errors of earlier NACKs, by resource
        self._delay = MIN_NACK_DELAY
        self._due = _AT_ONCE  # when the last NACK may go or went

    def due(self, response: ParsedResponse, now: float) -> float:
        """Return when the answer to this response may go out. NACKs that wait already share that time with it."""
        # A resource that was valid in between and is rejected again is news: somebody has tried to repair it.
        for item in response.items if self._rejected else ():
            if not item.parsed.errors:
                self._rejected.pop(item.parsed.name, None)
        refused = response.rejected
        if not refused:
            return _AT_ONCE
        is_new = any(self._rejected.get(name) != errors for name, errors in refused.items())
        self._rejected |= refused
        if is_new:
            self._delay, self._due = MIN_NACK_DELAY, now
        # A NACK that waits already keeps its time, or responses that come faster would delay it for ever.
        elif self._due <= now:
            self._due, self._delay = max(now, self._due + self._delay), min(2 * self._delay, MAX_NACK_DELAY)
        return self._due if self._due > now else _AT_ONCE


class NextRequest(Struct, frozen=True):
    """The names of a request, and the ACK or NACK that it is, if any."""

    names: Collection[str]
    ack: PendingAck | None


class _InFlight(Struct, frozen=True):
    names: frozenset[str]
    wanted: frozenset[str]  # all wanted names; the request may leave some out
    response: float  # the number of the response whose nonce it has
    answers: bool


class ResourceTypeState:
    """The state of one type. With `cumulative` a request has all names, and answers all responses up to its nonce."""

    def __init__(self, *, cumulative: bool) -> None:
        self.requested: frozenset[str] | None = None
        """The names in the last request that was sent; None before the first."""
        self.nonce = ""
        """The nonce of the last response."""
        self._cumulative = cumulative
        self._responses = 0
        self._pending_acks: list[PendingAck] = []
        self.unsent_bytes = 0
        """Roughly the bytes of pending answers; not counted in state of the world, where there are never many."""
        self._pacing = NackPacing()
        self._held: dict[str, int] = {}  # the number of the last response with each name that the client has
        self._not_held: set[str] = set()  # names that came and were not taken; the server may think that they were
        self._not_in_ack: set[str] = set()  # those of them that the last ACK or NACK did not name
        self._left_out: set[str] = set()  # those of them that some request with its nonce did not name
        self._in_flight = _InFlight(frozenset(), frozenset(), 0, answers=False)
        self._in_doubt = False
        self._wanted: frozenset[str] = frozenset()  # the wanted names at the last request
        self._may_be_ignored = False  # that request had a change, and may have crossed a response

    # -- requests

    def next_request(self, wanted_in_order: Collection[str], now: float) -> NextRequest | None:
        """Return the next request of this type, or None. The request counts as in flight from then on."""
        if not wanted_in_order and self.requested is None:
            return None  # a type's first request without names would subscribe to all resources
        # The set is for comparisons; the request keeps the order in which the names were wanted.
        names = wanted = self._as_set(wanted_in_order)
        ack = self._next_ack(now, at_once=wanted is not self._wanted or self._may_be_ignored)
        if ack is None and self._pending_acks and self._cumulative:
            return None  # it would have the nonce without the error, so it would be an ACK
        if omitted := self._omitted(wanted, ack):
            wanted_in_order = [name for name in wanted_in_order if name not in omitted]
            names = wanted - omitted
        if ack is None and (names is self.requested or names == self.requested):
            return None
        # In delta a request has its effect no matter which responses it crosses.
        response = inf if not self._cumulative else ack.response if ack else self._responses
        self._in_flight = _InFlight(names, wanted, response, answers=ack is not None)
        return NextRequest(wanted_in_order, ack)

    def request_again(self, wanted: Collection[str]) -> None:
        """Have the next request ask for the wanted names as for new ones; the stream must have no response yet."""
        self._in_flight = structs.replace(self._in_flight, names=self._in_flight.names.difference(wanted))
        if self.requested is not None:
            self.requested = self.requested.difference(wanted)

    @property
    def has_more(self) -> bool:
        """Return whether another request of this type is to follow, now or later."""
        return bool(self._pending_acks) or self._in_doubt

    @property
    def next_due(self) -> float:
        """Return when the next delayed NACK may go out; infinite if none waits."""
        return min((ack.due for ack in self._pending_acks), default=inf)

    def sent(self) -> list[str]:
        """Note that the request in flight went out, and return the names that it requests no longer."""
        sent, before = self._in_flight, self.requested or frozenset()
        self._may_be_ignored = sent.wanted is not self._wanted
        self.requested, self._wanted = sent.names, sent.wanted
        no_more = set() if sent.names is before else set(before - sent.names)
        # Most requests only answer; for those this check saves a set of thousands of names.
        if not self._held.keys() <= sent.names:
            no_more |= self._held.keys() - sent.names
        # Not those that a later response had: the server ignores a request with an older nonce.
        released = [name for name in no_more if self._held.get(name, 0) <= sent.response]
        for name in released:
            self.drop(name)
        left_out = self._not_held - sent.names
        if sent.answers:
            self._not_in_ack, self._left_out = left_out, set()
        self._left_out |= left_out
        return released

    def drop(self, name: str) -> None:
        """Note that a resource was dropped. The server may not know yet: a request may have crossed a response."""
        if self._held.pop(name, None) is not None and self._cumulative:
            self._not_held.add(name)

    def has_requested(self, name: str) -> bool:
        """Return whether the last request and the one in flight have the name.

        The last one was answered, so it arrived.
        """
        in_flight = self._in_flight.names
        return name in in_flight and (self.requested is None or name in self.requested)

    def may_forget(self, name: str) -> bool:
        """Return whether the server knows, as far as the client can tell, that the resource is wanted no longer."""
        named = name in self._in_flight.names or (self.requested is not None and name in self.requested)
        return name not in self._held and not named

    def _as_set(self, wanted: Collection[str]) -> frozenset[str]:
        """Return the names as a set: the last request's object if it is equal, since most requests only answer."""
        last = self._wanted
        return last if len(wanted) == len(last) and last.issuperset(wanted) else frozenset(wanted)

    def _next_ack(self, now: float, *, at_once: bool) -> PendingAck | None:
        """Return the next answer that need not wait longer. In state of the world no other request may go before it."""
        for index, ack in enumerate(self._pending_acks):
            if ack.due <= now or (at_once and self._cumulative):
                if not self._cumulative:
                    self.unsent_bytes -= ack.size
                return self._pending_acks.pop(index)
        return None

    def _omitted(self, wanted: frozenset[str], ack: PendingAck | None) -> Set[str]:
        """Return the names that this request leaves out, so that the next one asks for them.

        A server that answers each request at once, because of a NACK or another change, ignores the next request. So a
        NACK has all names, and so has an ACK if the last one had not; the request after it corrects what they claim.
        """
        doubtful = self._not_held & wanted if self.requested is not None else set[str]()
        self._in_doubt = bool(doubtful)
        if ack is None:
            return doubtful - self._left_out
        return set[str]() if ack.errors else doubtful - self._not_in_ack

    # -- responses

    def received(self, response: ParsedResponse, version: str, subscribed: Container[str], now: float) -> None:
        """Note the names of a response, and queue its answer. `version` is the last one accepted."""
        self._responses += 1
        # Also of a response that is refused: the NACK has to name it.
        self.nonce = response.nonce
        names = response.names
        self._not_in_ack -= names
        # A complete response without a name says that the server has no such resource.
        if response.is_complete:
            self._not_held &= names
        for name in names:
            if name in subscribed:
                self._held[name] = self._responses
                self._not_held.discard(name)
            elif self._cumulative:
                self._not_held.add(name)
        due = self._pacing.due(response, now)
        self._queue_ack(PendingAck(response.nonce, version, response.errors, self._responses, due))

    def note_left_out(self, name: str) -> bool:
        """Note that a complete response does not have a resource; return whether an earlier one had."""
        return self._held.pop(name, None) is not None

    def _queue_ack(self, ack: PendingAck) -> None:
        """Queue an answer. In state of the world the newest is enough, but no NACK with news is replaced.

        A replaced NACK would never reach the server. A delayed one only repeats what the server knows.
        """
        if self._cumulative:
            first = self._pending_acks[0] if self._pending_acks else None
            is_news = first is not None and first.errors and first.due == _AT_ONCE
            del self._pending_acks[1 if is_news else 0 :]
        else:  # nonces and errors may be long, so bytes are counted and not answers
            self.unsent_bytes += ack.size
        self._pending_acks.append(ack)
