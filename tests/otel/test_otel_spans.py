"""Spans of calls and attempts, as the SDK's exporter has them (A72)."""

import pytest
import trio
from opentelemetry import trace
from opentelemetry.baggage import set_baggage
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import attach, detach
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import TextMapPropagator, default_setter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from support.mesh import Mesh, ask, bidi, method
from support.metering import Metered, metered
from support.method_config import configured, for_all

from trxds import RpcError, StatusCode
from trxds.client import call_telemetry
from trxds.client.call_telemetry import AttemptTelemetry
from trxds.otel import telemetry
from trxds.testing import resources as xds
from trxds.transport.h2_engine import ErrorCode

FAIL = "/shop.Cart/Fail"
SENT, ATTEMPT = "Sent.shop.Cart.Fail", "Attempt.shop.Cart.Fail"


def put(mesh, handler):
    for server in mesh.servers.values():
        server.handlers[FAIL] = handler


def events(span):
    return [(event.name, dict(event.attributes)) for event in span.events]


def named(its, name):
    return [span for span in its.spans if span.name == name]


async def answer(call):
    async for message in call:
        await call.send(message)


def failing(*codes):
    codes = list(codes)

    async def fail(call):
        if codes:
            call.abort(codes.pop(0), "told to")
        await call.send(b"")

    return fail


async def test_a_call_is_a_span_and_its_attempt_a_child_of_it(autojump_clock):
    async with metered(spans=True) as (mesh, channel, its):
        put(mesh, answer)
        await method(channel, FAIL)(b"12345")
        attempt, call = its.spans
        assert (call.name, attempt.name) == (SENT, ATTEMPT)
        assert attempt.parent.span_id == call.context.span_id and call.parent is None
        assert (call.kind, attempt.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT)
        assert dict(attempt.attributes) == {"previous-rpc-attempts": 0, "transparent-retry": False}
        assert events(attempt) == [
            ("Outbound message", {"sequence-number": 0, "message-size": 5}),
            ("Inbound message", {"sequence-number": 0, "message-size": 5}),
        ]
        assert {call.status.status_code, attempt.status.status_code} == {trace.StatusCode.OK}
        assert events(call) == []


async def test_a_calls_span_is_a_child_of_the_callers(autojump_clock):
    async with metered(spans=True) as (_, channel, its):
        tracer = TracerProvider(shutdown_on_exit=False).get_tracer("shop")
        with tracer.start_as_current_span("order") as order:
            await ask(channel)
            assert trace.get_current_span() is order  # ours are never current
        (call,) = named(its, "Sent.shop.Cart.Add")
        assert call.parent.span_id == order.get_span_context().span_id


async def test_the_server_gets_the_trace_context_of_the_attempt(autojump_clock):
    said = []

    async def note(call):
        said.append(call.metadata.first("traceparent"))
        await call.send(b"")

    async with metered(spans=True) as (mesh, channel, its):
        put(mesh, note)
        await method(channel, FAIL)(b"")
        context = named(its, ATTEMPT)[0].context
        assert said == [f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"]


async def test_calls_with_shared_metadata_send_their_own_trace_context(autojump_clock):
    said = []

    async def note(call):
        said.append(call.metadata.all("traceparent"))
        await call.send(b"")

    async with metered(spans=True) as (mesh, channel, _):
        put(mesh, note)
        for _ in range(2):
            await method(channel, FAIL)(b"", metadata=[("user", "7")])
    assert [len(one) for one in said] == [1, 1] and said[0] != said[1]


async def test_the_attempts_trace_context_replaces_the_callers(autojump_clock):
    said = []

    async def note(call):
        said.append((call.metadata.all("traceparent"), call.metadata.all("user")))
        await call.send(b"")

    async with metered(spans=True) as (mesh, channel, its):
        put(mesh, note)
        old = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        await method(channel, FAIL)(b"", metadata=[("traceparent", old), ("user", "7")])
        context = named(its, ATTEMPT)[0].context
        assert said == [([f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"], ["7"])]


async def test_a_call_that_is_not_sampled_sends_its_trace_context_and_sees_no_messages(monkeypatch, autojump_clock):
    said, wanted = [], []

    async def note(call):
        said.append(call.metadata.first("traceparent"))
        await call.send(b"")

    class Noted(AttemptTelemetry):
        def end(self, status, stream):
            wanted.append(self.observers.wanted)
            super().end(status, stream)

    monkeypatch.setattr(call_telemetry, "AttemptTelemetry", Noted)
    watched = telemetry(tracer_provider=TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False), semconv=True)
    async with Mesh.run(1) as mesh, mesh.channel(telemetry=watched) as channel:
        put(mesh, note)
        await method(channel, FAIL)(b"")
    assert int(said[0].rpartition("-")[2], 16) & TraceFlags.SAMPLED == 0
    assert wanted == [{"headers", "ended"}]


async def test_another_propagator_may_send_the_trace_context(autojump_clock):
    said = []

    async def note(call):
        said.append((call.metadata.first("traceparent") is not None, call.metadata.first("baggage")))
        await call.send(b"")

    propagator = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
    async with metered(spans=True, how={"propagator": propagator}) as (mesh, channel, _):
        put(mesh, note)
        token = attach(set_baggage("tenant", "blue"))
        try:
            await method(channel, FAIL)(b"")
        finally:
            detach(token)
        assert said == [(True, "tenant=blue")]


class Setting(TextMapPropagator):
    """Sets these fields."""

    fields = frozenset()

    def __init__(self, **set):
        self.set = set

    def extract(self, carrier, context=None, getter=None):
        return context

    def inject(self, carrier, context=None, setter=default_setter):
        for name, text in self.set.items():
            setter.set(carrier, name.replace("_", "-"), text)


@pytest.mark.parametrize("name", ["grpc_trace_bin", "Grpc_Trace_Bin"])
@pytest.mark.parametrize("text", ["AAEC/w==", "AAEC/w"])
async def test_a_propagators_base64_is_sent_as_binary_metadata(name, text, autojump_clock):
    said = []

    async def note(call):
        said.append((call.metadata.all("grpc-trace-bin"), len(call.metadata.all("traceparent"))))
        await call.send(b"")

    propagator = CompositePropagator([TraceContextTextMapPropagator(), Setting(**{name: text})])
    async with metered(spans=True, how={"propagator": propagator}) as (mesh, channel, _):
        put(mesh, note)
        await method(channel, FAIL)(b"")
    assert said == [([b"\x00\x01\x02\xff"], 1)]


@pytest.mark.parametrize("bad", [{"grpc_trace_bin": "no base64"}, {"baggage": "tenant=blå"}])
async def test_a_field_of_a_propagator_that_cannot_be_sent_is_logged_and_the_trace_context_is_sent(
    bad, caplog, autojump_clock
):
    said = []

    async def note(call):
        said.append({key for key, _ in call.metadata} & {"traceparent", "grpc-trace-bin", "baggage"})
        await call.send(b"")

    propagator = CompositePropagator([Setting(**bad), TraceContextTextMapPropagator()])
    async with metered(spans=True, how={"propagator": propagator}) as (mesh, channel, _):
        put(mesh, note)
        await method(channel, FAIL)(b"")
    assert said == [{"traceparent"}]
    assert "observer AttemptSpan raised an exception in headers" in caplog.text


async def test_a_failure_is_an_error_with_its_code_and_message(autojump_clock):
    async with metered(spans=True) as (mesh, channel, its):
        put(mesh, failing(StatusCode.NOT_FOUND))
        with pytest.raises(RpcError):
            await method(channel, FAIL)(b"")
        assert [(span.status.status_code, span.status.description) for span in its.spans] == [
            (trace.StatusCode.ERROR, "NOT_FOUND, told to")
        ] * 2


async def test_each_retry_is_an_attempt_with_its_number_and_its_messages(monkeypatch, autojump_clock):
    policy = {"maxAttempts": 3, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 1}
    policy["retryableStatusCodes"] = ["UNAVAILABLE"]
    its = Metered(spans=True)
    how = for_all(retryPolicy=policy)
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, how, telemetry=its.telemetry) as channel:
        put(mesh, failing(StatusCode.UNAVAILABLE, StatusCode.UNAVAILABLE))
        await method(channel, FAIL)(b"x")
    attempts = named(its, ATTEMPT)
    assert [span.attributes["previous-rpc-attempts"] for span in attempts] == [0, 1, 2]
    assert [events(span)[-1 if number < 2 else -2] for number, span in enumerate(attempts)] == [
        ("Outbound message", {"sequence-number": 0, "message-size": 1})
    ] * 3
    assert len({span.parent.span_id for span in attempts}) == 1


async def test_a_transparent_retry_says_that_it_is_one(autojump_clock):
    refused = []

    async def refuse_once(call):
        if not refused:
            refused.append(call)
            call.reset(ErrorCode.REFUSED_STREAM)
        else:
            await call.send(b"")

    async with metered(spans=True) as (mesh, channel, its):
        put(mesh, refuse_once)
        await method(channel, FAIL)(b"")
        assert [dict(span.attributes) for span in named(its, ATTEMPT)] == [
            {"previous-rpc-attempts": 0, "transparent-retry": False},
            {"previous-rpc-attempts": 0, "transparent-retry": True},
        ]


async def test_hedges_are_attempts_that_overlap(monkeypatch, autojump_clock):
    slow = [100, 1]

    async def host(call):
        await trio.sleep(slow.pop(0) if slow else 0)
        await call.send(b"")

    policy = {"maxAttempts": 2, "hedgingDelay": "1s", "nonFatalStatusCodes": []}
    its = Metered(spans=True)
    how = for_all(hedgingPolicy=policy)
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, how, telemetry=its.telemetry) as channel:
        put(mesh, host)
        await method(channel, FAIL)(b"")
    (call,) = named(its, SENT)
    found = [(span.attributes["previous-rpc-attempts"], span.status.status_code) for span in named(its, ATTEMPT)]
    assert found == [(0, trace.StatusCode.ERROR), (1, trace.StatusCode.OK)]
    assert call.status.status_code is trace.StatusCode.OK


async def test_a_delay_of_an_attempt_is_a_span_event(autojump_clock):
    async with metered(spans=True, connected=False) as (_, channel, its):
        await ask(channel)
        attempt, call = its.spans
        assert events(call) == [("Delayed name resolution complete", {})]
        assert events(attempt)[0] == ("Delayed LB pick complete", {})


async def test_an_attempt_whose_picked_host_takes_no_stream_has_one_event_for_its_delay(autojump_clock):
    its = Metered(spans=True)

    async def wait(channel):
        async with bidi(channel).open() as call:
            await call.send(b"")
            await trio.sleep_forever()

    # One of the two waits for the only stream that the host allows, until the connection ends.
    async with (
        Mesh.run(1, sessions=False, max_concurrent_streams=1) as mesh,
        mesh.channel(telemetry=its.telemetry) as channel,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(wait, channel)
        nursery.start_soon(wait, channel)
        await trio.sleep(1)
        mesh.servers[mesh.hosts[0]].drop_connections()
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    delays = [[name for name, _ in events(span)].count("Delayed LB pick complete") for span in its.spans]
    assert sorted(delays) == [0, 0, 1, 1]


async def test_a_pick_that_fails_is_an_attempt_without_messages(autojump_clock):
    async with metered(spans=True, connected=False) as (mesh, channel, its):
        mesh.network.refuse(mesh.hosts[0])
        with pytest.raises(RpcError):
            await ask(channel)
        attempt, _ = its.spans
        assert attempt.status.description.startswith("UNAVAILABLE, cluster cart: ")
        assert "Outbound message" not in dict(events(attempt))


async def test_messages_of_a_stream_have_their_numbers(autojump_clock):
    async with metered(spans=True) as (mesh, channel, its):
        put(mesh, answer)
        async with bidi(channel, FAIL).open() as call:
            for message in (b"a", b"bc"):
                await call.send(message)
                await call.receive()
            call.done_sending()
            assert await call.receive() is None
        attempt, _ = its.spans
        numbers = [(name, about["sequence-number"], about["message-size"]) for name, about in events(attempt)]
        assert numbers == [
            ("Outbound message", 0, 1),
            ("Inbound message", 0, 1),
            ("Outbound message", 1, 2),
            ("Inbound message", 1, 2),
        ]


async def test_a_compressed_message_has_both_sizes(autojump_clock):
    async with metered(spans=True, compression="gzip") as (mesh, channel, its):
        put(mesh, failing())
        await method(channel, FAIL)(b"x" * 1000)
        (_, about), _ = events(named(its, ATTEMPT)[0])
        assert about["message-size"] == 1000 and about["message-size-compressed"] < 100


async def test_the_span_events_of_trxds_are_optional(autojump_clock):
    async with metered(spans=True, hosts=2, sessions=True, how={"own_events": True}) as (mesh, channel, its):
        async with channel.session() as session:
            first = await ask(session)
            (other,) = set(mesh.hosts) - {first}
            mesh.endpoints("cart", [other])
            await trio.sleep(1)
            its.exporter.clear()
            await ask(session)
        attempt, call = its.spans
        moved = {"trxds.from": first, "trxds.to": other, "trxds.reason": "unknown_host"}
        assert events(call) == [
            ("trxds.xds.route.matched", {"trxds.cluster": "cart"}),
            ("trxds.session.repinned", moved),
        ]
        pick = {"trxds.cluster": "cart", "trxds.backend": "cart", "trxds.address": other}
        assert events(attempt)[0] == ("trxds.lb.pick", pick)


async def test_the_event_of_a_pick_has_an_authority_that_is_not_the_channels(autojump_clock):
    async with metered(spans=True, how={"own_events": True}) as (_, channel, its):
        await ask(channel, authority="mine.example")
        attempt, _ = its.spans
        assert dict(events(attempt))["trxds.lb.pick"]["trxds.authority"] == "mine.example"


async def test_the_span_attributes_of_opentelemetry_are_optional(autojump_clock):
    async with metered(spans=True, how={"semconv": True}) as (mesh, channel, its):
        put(mesh, failing(StatusCode.ABORTED))
        with pytest.raises(RpcError):
            await method(channel, FAIL)(b"")
        assert dict(named(its, SENT)[0].attributes) == {
            "rpc.system.name": "grpc",
            "rpc.method": "shop.Cart/Fail",
            "server.address": "shop",
            "rpc.response.status_code": "ABORTED",
            "error.type": "ABORTED",
        }


async def test_an_aggregates_route_and_leaf_are_told_apart(autojump_clock):
    its = Metered(spans=True, own_events=True)
    async with Mesh.run(1, sessions=False) as mesh:
        mesh.plane.put(xds.aggregate("all", "cart"))
        mesh.route("all")
        async with mesh.channel(telemetry=its.telemetry) as channel:
            await ask(channel)
    (pick,) = [about for name, about in events(its.spans[0]) if name == "trxds.lb.pick"]
    assert (pick["trxds.cluster"], pick["trxds.backend"]) == ("all", "cart")
