"""Spans of calls and their attempts (A72), and the trace's context in the metadata of each attempt.

A call's span is a child of the span that is current where the call is made. It never becomes the current span itself,
because its attempts may run in other tasks.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Span, SpanKind, Tracer

from trxds.core.metadata import Value, from_text
from trxds.core.observe import AttemptObserver, CallObserver, CallStarted, Pick, SessionHostChanged
from trxds.core.status import Status

from .semconv import call_labels, status_labels


class Tracing(Struct, frozen=True):
    """The settings of tracing. With `own`, spans have events beyond those of A72; their names begin with `trxds.`."""

    tracer: Tracer
    propagator: TextMapPropagator
    own: bool


class CallSpan(CallObserver):
    """The span `Sent.package.Service.Method`. With a `target` it has the attributes of OpenTelemetry's conventions."""

    __slots__ = ("_context", "_name", "_target", "_tracing", "span")

    def __init__(self, tracing: Tracing, call: CallStarted, target: str) -> None:
        self._tracing = tracing
        self._target = target
        # A72: with a dot, where metrics have the method with its slash (A66).
        self._name = call.path[1:].replace("/", ".")
        self.span: Span = tracing.tracer.start_span(f"Sent.{self._name}")
        if target and self.span.is_recording():
            self.span.set_attributes(call_labels(call.path[1:], target))
        self._context = trace.set_span_in_context(self.span)

    def resolution_delayed(self) -> None:
        # A72: told only when the call had to wait, and then when that is over.
        self.span.add_event("Delayed name resolution complete")

    def routed(self, cluster: str, hedged: bool) -> None:
        if self._tracing.own:
            self.span.add_event("trxds.xds.route.matched", {"trxds.cluster": cluster})

    def attempt(self, previous: int, transparent: bool) -> PropagatedSpan:
        span = self._tracing.tracer.start_span(
            f"Attempt.{self._name}",
            self._context,
            SpanKind.CLIENT,
            {"previous-rpc-attempts": previous, "transparent-retry": transparent},
        )
        kind = AttemptSpan if span.is_recording() else PropagatedSpan
        return kind(self._tracing, span, trace.set_span_in_context(span, self._context))

    def settled(self, place: SessionHostChanged) -> None:
        if self._tracing.own and place.before:
            about = {"trxds.from": place.before, "trxds.to": place.address, "trxds.reason": place.reason}
            self.span.add_event("trxds.session.repinned", about)

    def ended(self, status: Status) -> None:
        if self._target and self.span.is_recording():
            self.span.set_attributes(status_labels(status.code.name))
        _end(self.span, status)


class PropagatedSpan(Struct, AttemptObserver, eq=False):
    """The span of an attempt that is not sampled: the server gets its context, and nobody will see its events."""

    _tracing: Tracing
    _span: Span
    _context: Context

    def headers(self) -> Iterable[tuple[str, Value]]:
        carrier: dict[str, str] = {}
        # The attempt's context and not the call's (A72): the server's span is a child of the attempt that reached it.
        self._tracing.propagator.inject(carrier, self._context)
        return [(key, _value(key, text)) for key, text in carrier.items()]

    def ended(self, status: Status) -> None:
        self._span.end()


class AttemptSpan(PropagatedSpan, eq=False):
    """The span `Attempt.package.Service.Method`."""

    _sent: int = 0
    _received: int = 0
    _has_delay_event: bool = False

    def picked(self, pick: Pick) -> None:
        # A72: an attempt has one stream. Another pick follows if the host took none, and the delay is the same one.
        if pick.delayed and not self._has_delay_event:
            self._has_delay_event = True
            self._span.add_event("Delayed LB pick complete")
        if self._tracing.own:
            about = {"trxds.cluster": pick.cluster, "trxds.backend": pick.backend, "trxds.address": pick.address}
            if pick.authority:
                about["trxds.authority"] = pick.authority
            self._span.add_event("trxds.lb.pick", about)

    def sent(self, size: int, wire_size: int) -> None:
        # A72: numbered from 0 in each direction, by attempt.
        self._message("Outbound message", self._sent, size, wire_size)
        self._sent += 1

    def received(self, size: int, wire_size: int) -> None:
        self._message("Inbound message", self._received, size, wire_size)
        self._received += 1

    def _message(self, event: str, number: int, size: int, wire_size: int) -> None:
        about = {"sequence-number": number, "message-size": size}
        # A72: only of a message that was compressed.
        if wire_size != size:
            about["message-size-compressed"] = wire_size
        self._span.add_event(event, about)

    def ended(self, status: Status) -> None:
        _end(self._span, status)


def _value(key: str, text: str) -> Value:
    """Return the metadata's value of a text that a propagator has set."""
    try:
        return from_text(key, text)  # A72: grpc-trace-bin is base64 in the carrier
    except (ValueError, AttributeError):
        return text  # to be logged and not sent


def _end(span: Span, status: Status) -> None:
    if span.is_recording():
        if status.ok:
            # A72 sets OK too, which OpenTelemetry leaves unset as a rule.
            span.set_status(trace.StatusCode.OK)
        else:
            # A72: the code goes into the description, since OpenTelemetry has no place for it.
            span.set_status(trace.StatusCode.ERROR, f"{status.code.name}, {status.message}")
    span.end()
