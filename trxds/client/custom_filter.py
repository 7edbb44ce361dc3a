"""A program's own HTTP filter is registered, made and checked here: its mistakes fail calls, and name the filter."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import structs

from trxds.core import metadata as md
from trxds.core.arguments import check_type
from trxds.core.failed_cleanup import log_errors
from trxds.core.status import Status, StatusCode
from trxds.lb.pick import Override, PickArgs
from trxds.resolver.pick_outcomes import FilterStep
from trxds.resources import protos
from trxds.resources.custom_filter import (
    CustomFilterConfig,
    CustomFilterParser,
    ParseFilterSettings,
    custom_filter_type,
)
from trxds.resources.filter_config import HttpFilterType
from trxds.resources.filters import FILTER_CONFIG, HTTP_FILTERS, registry

from .filter_protocol import Filter, FilterCall, FilterContext, FilterResult, MakeFilter, Wait

if TYPE_CHECKING:
    from google.protobuf.message import Message

_log = logging.getLogger("trxds.client")


@dataclass(frozen=True, slots=True)
class OverrideType:
    """The overrides of a filter in a `typed_per_filter_config`, for virtual hosts, routes and weighted clusters (A39).

    `type_name` is their message's name; empty means the filter's own type, then `parse` and `message` are the filter's
    too unless they are given here. The most specific override replaces the listener's settings entirely, and the less
    specific overrides too. With `merge` the filter gets `merge(settings of the listener, settings of the override)`.
    """

    type_name: str = ""
    parse: ParseFilterSettings | None = None
    message: type[Message] | None = None
    merge: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class FilterType:
    """A program's own HTTP filter, as `open_channel(http_filters=...)` takes it by the name of its configuration.

    `make(settings, context)` is called for each configuration of the filter that calls use; usually it is the class.
    `parse` turns the configuration that the control plane sent into the filter's settings; an exception rejects the
    resource (NACK). It gets the fields of an `xds.type.v3.TypedStruct`, or of udpa's, as a mapping. With `message`, the
    class of a protobuf message of that name, it gets such a message; a TypedStruct is converted. Without `parse` that
    mapping or message is the settings. Settings are compared: give them an `==`. They must not refer to the channel,
    which would stay in memory after it is closed. With `override=None` a resource that overrides it is rejected.
    """

    make: MakeFilter
    parse: ParseFilterSettings | None = None
    message: type[Message] | None = None
    override: OverrideType | None = field(default_factory=OverrideType)


HttpFilters: TypeAlias = Mapping[str, FilterType]  # a program's own, by the names of their configurations


# -- registration


def filter_types(custom: HttpFilters) -> Mapping[str, HttpFilterType]:
    """Return the registry for parsers: the client's own types, and those of the program.

    Raises `ValueError` for a name that is taken or malformed, `TypeError` for another value than a `FilterType`.
    """
    types = []
    taken = {*HTTP_FILTERS, FILTER_CONFIG}
    check_type("http_filters", custom, Mapping, "a mapping of a type's name to a FilterType")
    for name, kind in custom.items():
        if not isinstance(kind, FilterType):
            raise TypeError(f"http_filters[{name!r}] is a FilterType, as in FilterType(MyFilter), not {kind!r}")
        of_listener = CustomFilterParser(name, kind.parse, kind.message)
        of_override = _override_parser(of_listener, kind.override)
        parsers = [of_listener] if of_override is None else [of_listener, of_override]
        for each in parsers:
            _check_name(name, each, taken)
        taken |= {each.type_name for each in parsers}
        types.append(custom_filter_type(of_listener, of_override))
    return {**HTTP_FILTERS, **registry(types)}


def _override_parser(of_listener: CustomFilterParser, override: OverrideType | None) -> CustomFilterParser | None:
    if override is None:
        return None
    if override.type_name in ("", of_listener.type_name):
        return structs.replace(
            of_listener, parse=override.parse or of_listener.parse, message=override.message or of_listener.message
        )
    return CustomFilterParser(override.type_name, override.parse, override.message)


def _check_name(name: str, parser: CustomFilterParser, taken: set[str]) -> None:
    where, type_name = f"http_filters[{name!r}]", parser.type_name
    if not type_name or "/" in type_name:
        remedy = "write a message's name, which follows the last slash of its type URL, such as 'my.pkg.Filter'"
        raise ValueError(f"{where}: {type_name!r} is no name of a configuration; {remedy}")
    if type_name in taken:
        raise ValueError(f"{where}: there is an HTTP filter for {type_name!r} already; choose another name")
    if parser.message is not None and protos.type_name(parser.message) != type_name:
        has = protos.type_name(parser.message)
        raise ValueError(f"{where}: the message for {type_name!r} is a {has}; give the class of that message")


# -- a filter and its decisions


def make_custom_filter(kind: FilterType, config: CustomFilterConfig, context: FilterContext) -> Filter | None:
    """Return the program's filter, checked; if it cannot be made, one that fails all calls."""
    label = f'"{config.name}"'
    try:
        settings = config.settings
        if config.is_override and kind.override is not None and kind.override.merge is not None:
            settings = kind.override.merge(config.base, settings)
        made = kind.make(settings, context)
        if made is None:
            return None
        if not callable(getattr(made, "start", None)):
            raise TypeError(f"make returned {made!r}, which has no method `start`")
        return CheckedFilter(made, config.name, f"{label} ({type(made).__name__})")
    except Exception:
        _log.exception("%s: the filter %s cannot be made; calls on its routes fail", context.target, label)
        return FailingFilter(
            config.name, Status(StatusCode.INTERNAL, f"the filter {label} cannot be made, see the log")
        )


class FailingFilter:
    """The place of a filter that could not be made: without it calls would pass unfiltered."""

    def __init__(self, name: str, status: Status) -> None:
        self._name = name
        self._status = status

    def start(self, call: PickArgs) -> Status:
        """Fail the call."""
        return self._status

    def explain(self, call: PickArgs) -> FilterStep:
        """Return the failure."""
        return FilterStep("cannot be made", status=self._status, name=self._name)


class CheckedFilter:
    """A program's filter whose decisions are checked; `label` is for messages."""

    __slots__ = ("_filter", "_name", "label")

    def __init__(self, own: Any, name: str, label: str) -> None:
        self._filter = own
        self._name = name
        self.label = label

    def __repr__(self) -> str:
        return f"<CheckedFilter {self.label}>"

    def start(self, call: PickArgs) -> FilterResult | Wait:
        """Return the filter's decision. Raises `TypeError` or `ValueError` for one that cannot be carried out."""
        before = _Before(call)
        result = self._filter.start(call)
        if isinstance(result, Wait):
            return Wait(partial(self._step, result, call, before))
        before.check_changes(call)
        return _checked(result)

    async def _step(self, wait: Wait, call: PickArgs, before: _Before) -> FilterResult:
        try:
            # Guarded here, because `find_route` guards `start` only.
            result = await wait.step()
            before.check_changes(call)
            return _checked(result)
        except Exception:
            _log.exception("the filter %s raised; the RPC to %s fails", self.label, call.path)
            return Status(StatusCode.INTERNAL, f"the filter {self.label} raised an exception, see the log")
        except BaseExceptionGroup as group:
            text = "the filter %s raised while it was cancelled, in the RPC to %s"
            raise log_errors(group, _log, text, self.label, call.path) from None

    def explain(self, call: PickArgs) -> FilterStep:
        """Return the filter's explanation; one step without reasons if it has none."""
        explain = getattr(self._filter, "explain", None)
        if explain is None:
            text = "does not explain itself; what follows is for an RPC that it lets pass unchanged"
            return FilterStep(text, name=self._name, is_opaque=True)
        before = _Before(call)
        try:
            step = explain(call)
            if not isinstance(step, FilterStep):
                raise TypeError(f"explain() must return a FilterStep, not {step!r}")
            before.check_changes(call)
            return replace(step, name=self._name)
        except Exception as error:
            _log.exception("the filter %s raised in explain()", self.label)
            # What it has changed until then may be nonsense.
            before.restore(call)
            return FilterStep(f"raised {type(error).__name__} in explain(), see the log", name=self._name)


class _Before:
    """A call as it came to a filter."""

    __slots__ = ("_cluster", "_metadata", "_override", "_path")

    def __init__(self, call: PickArgs) -> None:
        self._path, self._metadata, self._cluster = call.path, call.metadata, call.cluster
        self._override = call.override

    def check_changes(self, call: PickArgs) -> None:
        """Check the filter's changes; make its pairs `Metadata`."""
        if call.metadata is not self._metadata:
            call.metadata = md.check(call.metadata)
        if call.path != self._path:
            raise ValueError(f"a filter cannot change the path to {call.path!r}: the route was chosen by it")
        if call.cluster != self._cluster and not (call.route and call.route.allows_cluster(call.cluster)):
            raise ValueError(f"{call.cluster!r} is no cluster of the call's route")
        if call.override is not self._override:
            _check_override(call.override)

    def restore(self, call: PickArgs) -> None:
        call.path, call.metadata, call.cluster = self._path, self._metadata, self._cluster
        call.override = self._override


def _check_override(override: object) -> None:
    # A text alone would be a sequence of addresses of one letter each, of which no host has one.
    if override is None:
        return
    if not isinstance(override, Override):
        raise TypeError(f'call.override is Override(("10.0.0.1:443",)) or None, not {override!r}')
    addresses: object = override.addresses
    if not isinstance(addresses, tuple) or not all(isinstance(each, str) for each in addresses):
        raise TypeError(f'addresses of an Override are a tuple such as ("10.0.0.1:443",), not {addresses!r}')


def _checked(result: object) -> FilterResult:
    match result:
        case Status(ok=True):
            raise ValueError("a filter cannot end a call with OK, for there is no reply; return None to let it pass")
        case None | Status() | FilterCall():
            return result
        # A class is `FilterCall` without its brackets, and would be called with metadata.
        case _ if callable(result) and not isinstance(result, type):
            return result
    if iscoroutine(result):
        result.close()
        raise TypeError("start() must not be a coroutine function; return a Wait with one")
    raise TypeError(f"start() must return None, a Status, a Wait, a FilterCall or a function, not {result!r}")
