"""The enabled instruments of one telemetry.

To record into an instrument that is not enabled costs one test: its labels are never made. What is recorded for every
call has a `Series`, whose labels are made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from opentelemetry.context import Context, set_value
from opentelemetry.metrics import CallbackOptions, Meter, Observation

from .instruments import INSTRUMENTS, Instrument, Kind

Labels: TypeAlias = Mapping[str, str | int]
Take: TypeAlias = Callable[[float, Labels, Context], None]
Read: TypeAlias = Callable[[], Iterable[tuple[int, Labels]]]

# The SDK takes the current context in the place of an empty one; where a value is recorded, that is somebody else's.
NO_CONTEXT = set_value("trxds.no_context", True, Context())


def enabled_instruments(enable: Iterable[str], disable: Iterable[str]) -> set[Instrument]:
    """Return the instruments that are on by default, with those of `enable` and without those of `disable`.

    A name stands for all instruments that begin with it: `grpc.xds_client` is all of those.
    Raises `ValueError` for a name that is none.
    """
    chosen = {each for each in INSTRUMENTS if each.is_enabled_by_default}
    for name in enable:
        chosen |= instruments_named(name)
    for name in disable:
        # After `enable`, so that a group can be added without one of its members.
        chosen -= instruments_named(name)
    return chosen


def instruments_named(name: str) -> set[Instrument]:
    found = {each for each in INSTRUMENTS if each.name == name or each.name.startswith(f"{name}.")}
    if not found:
        raise ValueError(f"no instrument has the name {name!r} or begins so; docs/reference/metrics.md has them all")
    return found


class Meters:
    """The instruments of one meter; `labels` are the optional ones that they have.

    Gauges call the functions in `read`, in the thread in which the SDK collects.
    """

    def __init__(
        self, meter: Meter, instruments: Iterable[Instrument], labels: frozenset[str], read: Mapping[Instrument, Read]
    ) -> None:
        self._labels = labels
        self._entries: dict[str, _Entry] = {}
        for each in instruments:
            optional = tuple(label for label in each.optional if label in labels)
            self._entries[each.name] = _Entry(_make(meter, each, read), each.labels, optional)

    def has(self, *instruments: Instrument) -> bool:
        """Return whether any of them is enabled."""
        return any(each.name in self._entries for each in instruments)

    def has_label(self, label: str) -> bool:
        return label in self._labels

    def record(self, instrument: Instrument, value: float, labels: Labels, context: Context = NO_CONTEXT) -> None:
        """Record a value into a counter or a histogram, with the enabled labels that the instrument has.

        What a call measures has the `context` in which the call began.
        """
        series = self.series(instrument, labels)
        if series is not None:
            series.take(value, series.labels, context)

    def series(self, instrument: Instrument, labels: Labels) -> Series | None:
        """Return an instrument with the enabled labels that it has; None if it is not enabled itself."""
        entry = self._entries.get(instrument.name)
        if entry is None:
            return None
        its = {label: labels[label] for label in entry.labels if label in labels}
        for label in entry.optional:
            # A78: empty where it is not known. Without it these would be series of other labels.
            its[label] = labels.get(label, "")
        return Series(entry.take, its)


class _Entry(NamedTuple):
    """An enabled instrument: the function that takes its values, and its labels."""

    take: Take
    labels: tuple[str, ...]
    optional: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Series:
    """An instrument with one set of labels, which nobody changes. `take` records a value in a context."""

    take: Take
    labels: Labels


def _make(meter: Meter, instrument: Instrument, read: Mapping[Instrument, Read]) -> Take:
    name, unit, description = instrument.name, instrument.unit, instrument.description
    match instrument.kind:
        case Kind.COUNTER:
            return meter.create_counter(name, unit, description).add
        case Kind.UP_DOWN:
            return meter.create_up_down_counter(name, unit, description).add
        case Kind.HISTOGRAM:
            # None is no advice, where an empty list would advise a single bucket. A View of the program's goes first.
            buckets = instrument.buckets or None
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets).record
        case Kind.GAUGE:
            meter.create_observable_gauge(name, [_observing(read[instrument])], unit, description)
            return _is_read


def _is_read(value: float, labels: Labels, context: Context) -> None:
    raise AssertionError("a gauge is read, and nothing is recorded into it")


def _observing(read: Read) -> Callable[[CallbackOptions], Iterable[Observation]]:
    # Copies, because exporters keep the labels longer than this call.
    return lambda options: [Observation(value, dict(labels), NO_CONTEXT) for value, labels in read()]
