"""`telemetry(...)`, which a program passes to `open_channel`, and the observers that it makes for each channel."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from opentelemetry.context import get_current
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import trxds
from trxds.core.observe import CallStarted, Locate, Observer, Telemetry

from . import instruments as of
from .calls import CallMetrics, CallsOfChannel
from .channel import ChannelMetrics
from .meters import NO_CONTEXT, Labels, Meters, enabled_instruments
from .spans import CallSpan, Tracing

_LIBRARY = "trxds"
_OTHER = "other"
_FLUSH = "trxds.flush"

# The open channels with metrics, of all telemetries of the process. For a second observable instrument of the same name
# the SDK returns the first one, and drops the callbacks of the second. So those of each telemetry read the channels of
# all telemetries with its provider.
# Channels of several threads open and close, and the SDK reads in one of its own. No lock is needed: to add, to remove
# and to copy is one step each, also without the GIL.
_open_channels: dict[ObservedChannel, None] = {}

if hasattr(os, "register_at_fork"):  # Windows does not fork
    # The parent's channels are not the child's, which would export their gauges and measurements once more.
    os.register_at_fork(after_in_child=_open_channels.clear)


def _no_label(call: CallStarted) -> str:
    return ""


def telemetry(
    *,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
    propagator: TextMapPropagator | None = None,
    enable: Iterable[str] = (),
    disable: Iterable[str] = (),
    optional_labels: Iterable[str] = (),
    methods: Callable[[str], bool] | None = None,
    custom_label: Callable[[CallStarted], str | None] = _no_label,
    semconv: bool = False,
    own_events: bool = False,
) -> tuple[Telemetry, ...]:
    """Make the value of `open_channel(telemetry=...)` and `open_xds_client(telemetry=...)`.

    Any number of channels may share it. The program's global providers are never used (A66).

    Args:
        meter_provider: Where metrics go; without it there are none.
        tracer_provider: Where spans go; without it there are none.
        propagator: Writes the context of a trace into the metadata of each attempt; W3C's `traceparent` by default.
        enable: Instruments to add to those that are on by default, each by its name or by the beginning of its name,
            such as `grpc.xds_client`. `docs/reference/metrics.md` lists all of them.
        disable: Instruments to take away, in the same way.
        optional_labels: Labels that are recorded where an instrument has them, such as `grpc.lb.locality`.
        methods: A function that is called with the path of a method whose messages are no protobuf classes, and says
            whether `grpc.method` may be that path; otherwise the label is "other".
        custom_label: A function that returns the `grpc.client.call.custom` of a call (A108), if that label is enabled.
            None is the empty label.
        semconv: Add the duration of calls by the name that OpenTelemetry's own conventions have for it, and add their
            attributes to spans.
        own_events: Add span events that no proposal defines; their names begin with `trxds.`.

    Raises:
        ValueError: An instrument or a label does not exist.
    """
    labels = frozenset(optional_labels)
    # A name with a typo would be a metric without its label, found out when somebody needs it.
    if unknown := labels - of.OPTIONAL_LABELS:
        known = ", ".join(sorted(of.OPTIONAL_LABELS))
        raise ValueError(f"{', '.join(sorted(unknown))}: no optional label; there are {known}")
    instruments = enabled_instruments([*enable, *([of.RPC_DURATION.name] if semconv else [])], disable)
    made: list[Telemetry] = []
    if meter_provider is not None:
        made.append(Metrics(meter_provider, instruments, labels, methods, custom_label))
    if tracer_provider is not None:
        made.append(Spans(tracer_provider, propagator or TraceContextTextMapPropagator(), semconv, own_events))
    return tuple(made)


class Metrics:
    """Metrics of all channels with this telemetry, recorded into one meter.

    Gauges show the open channels of all telemetries with the same provider.
    """

    def __init__(
        self,
        provider: MeterProvider,
        instruments: Iterable[of.Instrument],
        labels: frozenset[str],
        methods: Callable[[str], bool] | None,
        custom_label: Callable[[CallStarted], str | None],
    ) -> None:
        self.provider = provider
        meter = provider.get_meter(_LIBRARY, trxds.__version__)
        read = {of.CONNECTED: self._servers, of.RESOURCES: self._resources}
        self._meters = Meters(meter, instruments, labels, read)
        self._methods = methods
        # The function is the program's, and is not called for each call if nothing shows its result.
        self._custom_label = custom_label if self._meters.has_label(of.CUSTOM) else None
        # The SDK calls this before it reads its instruments. It has no value of its own and is never exported.
        meter.create_observable_counter(_FLUSH, [self._flush])

    def __repr__(self) -> str:
        return f"<Metrics of {sum(each.metrics is self for each in self._open())} channels>"

    def observe(self, target: str, locate: Locate) -> Observer:
        observer = ObservedChannel(self._meters, target, locate, self)
        _open_channels[observer] = None
        return observer

    def labels(self, call: CallStarted) -> tuple[str, str]:
        """Return the method of a call and its custom label."""
        # A66: a path that did not come from generated code may be anything, and each is another series.
        is_known = call.registered or (self._methods is not None and self._methods(call.path))
        # A108: the label is empty for a call without one. A function may say None, as `Metadata.first` does.
        custom = (self._custom_label(call) or "") if self._custom_label is not None else ""
        return call.path[1:] if is_known else _OTHER, custom

    def _open(self) -> list[ObservedChannel]:
        # By identity: no provider has to be hashable or weakly referenced.
        return [each for each in list(_open_channels) if each.metrics.provider is self.provider]

    def _flush(self, options: CallbackOptions) -> Iterable[Observation]:
        for channel in self._open():
            channel.flush()
        return ()

    def _servers(self) -> Iterator[tuple[int, Labels]]:
        # One that is down shows, whatever others with its target can reach.
        return _merged((each.servers() for each in self._open()), min)

    def _resources(self) -> Iterator[tuple[int, Labels]]:
        return _merged((each.resources() for each in self._open()), sum)


def _merged(
    channels: Iterable[Iterator[tuple[int, Labels]]], merge: Callable[[list[int]], int]
) -> Iterator[tuple[int, Labels]]:
    """Make one value of those that have the same labels, of which the SDK would keep the last."""
    values: defaultdict[tuple[tuple[str, str | int], ...], list[int]] = defaultdict(list)
    for value, labels in chain.from_iterable(channels):
        values[tuple(labels.items())].append(value)
    for items, each in values.items():
        yield merge(each), dict(items)


class ObservedChannel(ChannelMetrics):
    """This observer records all metrics of one channel, those of its calls too."""

    def __init__(self, meters: Meters, target: str, locate: Locate, metrics: Metrics) -> None:
        super().__init__(meters, target, locate)
        self._calls = CallsOfChannel(meters, target, locate)
        self.metrics = metrics

    def call(self, call: CallStarted) -> CallMetrics:
        calls = self._calls
        series, now = calls.series(self.metrics.labels(call)), calls.now()
        return CallMetrics(calls, series, get_current() or NO_CONTEXT, call.session is not None, now, now)

    def flush(self) -> None:
        """Record the measurements that wait, in any thread."""
        self._calls.buffer.flush()

    def closed(self) -> None:
        self.flush()
        _open_channels.pop(self, None)


class Spans:
    """Spans of all channels with this telemetry, by one tracer."""

    def __init__(
        self, provider: TracerProvider, propagator: TextMapPropagator, semconv: bool, own_events: bool
    ) -> None:
        self._tracing = Tracing(provider.get_tracer(_LIBRARY, trxds.__version__), propagator, own_events)
        self._semconv = semconv

    def observe(self, target: str, locate: Locate) -> Observer:
        return TracedChannel(self._tracing, target if self._semconv else "")


class TracedChannel(Observer):
    """This observer makes the spans of one channel's calls.

    With a `target` the spans have the attributes of OpenTelemetry's conventions.
    """

    __slots__ = ("_target", "_tracing")

    def __init__(self, tracing: Tracing, target: str) -> None:
        self._tracing = tracing
        self._target = target

    def call(self, call: CallStarted) -> CallSpan:
        return CallSpan(self._tracing, call, self._target)
