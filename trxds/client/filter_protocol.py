"""The interface of HTTP filters, as RPCs run them (A39): the session and fault filters have it, and a program's own.

A `Filter` is made for one configuration and shared by the RPCs of all routes that have it. It sees each RPC once, after
its route and cluster are chosen and before its first pick, however many attempts the RPC makes (A6).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

from trxds.core.metadata import Metadata, Value
from trxds.core.status import Status
from trxds.lb.pick import PickArgs
from trxds.resolver.pick_outcomes import FilterDecision

Respond: TypeAlias = Callable[[Metadata], Metadata | Iterable[tuple[str, Value]]]
"""A function that returns the response's initial metadata, or the trailing metadata of a trailers-only response, as the
filter leaves it. It is synchronous: the task that reads the connection calls it."""


class FilterCall:
    """One call as a filter follows it, from `Filter.start` to its end; override the methods that you need.

    Messages are serialized, and not compressed. All methods are synchronous, and must be quick: tasks of the connection
    call some of them. Each is called in the order of the filters on the way to the server, and in the opposite order on
    the way back.
    """

    def on_send(self, message: bytes) -> bytes:
        """Return the message to send in place of this one. An exception fails the call with INTERNAL."""
        return message

    def on_headers(self, metadata: Metadata) -> Metadata | Iterable[tuple[str, Value]]:
        """Return the response's initial metadata as its caller gets it; not called for a trailers-only response."""
        return metadata

    def on_receive(self, message: bytes) -> bytes:
        """Return the message that the caller gets in place of this one. An exception fails the call with INTERNAL."""
        return message

    def on_trailers(self, status: Status, metadata: Metadata) -> Metadata | Iterable[tuple[str, Value]]:
        """Return the trailing metadata that the caller gets: after the last message, or when a `send` fails.

        This is not called if the client has ended the call: by its deadline or `cancel`, say, or by leaving it.
        """
        return metadata

    def on_close(self, status: Status) -> None:
        """Note the end of the call; called once for each call, whatever happened, with the caller's status."""


FilterResult: TypeAlias = Respond | FilterCall | Status | None
"""A `Status` ends the call, and None lets it pass. A function changes its response, and a `FilterCall` follows it."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A `Wait` is a step that the RPC awaits, within its own deadline, for the filter's result."""

    step: Callable[[], Awaitable[FilterResult]]
    """A coroutine function. It is cancelled with the call."""


class Filter(Protocol):
    """A `Filter` is one filter of a route, shared by the route's RPCs."""

    def start(self, call: PickArgs) -> FilterResult | Wait:
        """Decide about an RPC before its pick. Synchronous.

        A filter may replace `call.metadata`, switch `call.cluster` to another one of the route (A60), and set
        `call.override`. The route stays, even if it would not match the new metadata (A39).
        """


@runtime_checkable
class ExplainableFilter(Filter, Protocol):
    """A filter that takes part in explanations of RPCs; another one is one opaque step there."""

    def explain(self, call: PickArgs) -> FilterDecision:
        """Change `call` as `start` would, and return the decision; it waits for nothing and counts nothing.

        Random numbers come from `call.trace.random(generator)`, so that the next RPC draws the same ones.
        """


class FilterContext(Struct, frozen=True):
    """The surroundings of a filter: its `name` in the listener, and the channel's `target` and source of chance.

    A filter is made again when the routes change. `shared` belongs to all filters of one type in one channel, and stays
    while the channel is open: keep there what an update must not reset.
    """

    name: str
    target: str
    random: Random
    shared: MutableMapping[str, Any] = field(default_factory=dict)


MakeFilter: TypeAlias = Callable[[Any, FilterContext], Filter | None]
"""A function of settings and context that makes a filter; it returns None for settings with nothing to do."""
