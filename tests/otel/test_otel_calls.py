"""Metrics of calls and attempts, as the SDK's reader finds them (A66, A78, A89, A96, A108)."""

import pytest
import trio
from opentelemetry.metrics import NoOpMeter
from support.mesh import METHOD, Mesh, ask, bidi, method
from support.metering import TARGET, Metered, metered
from support.method_config import configured, for_all

from trxds import RpcError, StatusCode
from trxds.otel.calls import CallsOfChannel
from trxds.otel.instruments import LATENCIES, SIZES
from trxds.otel.meters import Meters
from trxds.testing import resources as xds
from trxds.transport.h2_engine import ErrorCode

FAIL = "/shop.Cart/Fail"
BASE = (("grpc.method", "other"), ("grpc.target", TARGET))
OK = (*BASE[:1], ("grpc.status", "OK"), *BASE[1:])
STARTED = "grpc.client.attempt.started"
DURATION = "grpc.client.attempt.duration"
SENT = "grpc.client.attempt.sent_total_compressed_message_size"
RECEIVED = "grpc.client.attempt.rcvd_total_compressed_message_size"
CALL = "grpc.client.call.duration"


def put(mesh, handler, path=FAIL):
    for server in mesh.servers.values():
        server.handlers[path] = handler


async def test_the_series_of_any_number_of_methods_and_hosts_are_not_kept(autojump_clock):
    """A custom label may be anything that the program makes of a call, and clusters come and go."""
    calls = CallsOfChannel(Meters(NoOpMeter("none"), (), frozenset(), {}), TARGET, None)
    of_method = calls.series(("/s/M", ""))
    for number in range(3000):
        calls.series(("/s/M", str(number)))
        of_method.attempt(StatusCode.OK, f"cluster-{number}", "")
    assert len(calls._methods) <= 1000 and len(of_method._attempts) <= 1000


class Script:
    """Ends call after call with the next of these codes, each after a second; OK is an answer."""

    def __init__(self, *codes):
        self.codes = list(codes)

    async def __call__(self, call):
        await trio.sleep(1)
        code = self.codes.pop(0)
        if code is not StatusCode.OK:
            call.abort(code, "told to")
        await call.send(b"done")


class TestA66:
    async def test_five_instruments_of_a66_are_on_by_default_with_their_units(self, autojump_clock):
        async with metered() as (_, _, its):
            assert {name: metric.unit for name, metric in its.metrics().items()} == {
                STARTED: "{attempt}",
                DURATION: "s",
                SENT: "By",
                RECEIVED: "By",
                CALL: "s",
            }

    async def test_a_call_has_its_labels_sizes_and_time(self, autojump_clock):
        async with metered() as (mesh, channel, its):
            put(mesh, Script(StatusCode.OK))
            before = its.read(SENT)[OK], its.read(RECEIVED)[OK], its.read(CALL)[OK], its.read(DURATION)[OK]
            await method(channel, FAIL)(b"12345")
            after = its.read(SENT)[OK], its.read(RECEIVED)[OK], its.read(CALL)[OK], its.read(DURATION)[OK]
            grown = [(now[0] - then[0], now[1] - then[1]) for then, now in zip(before, after, strict=True)]
            assert grown == [(1, 5), (1, 4), (1, pytest.approx(1)), (1, pytest.approx(1))]
            assert its.read(STARTED) == {BASE: 2}

    async def test_a_failure_has_the_name_of_its_status(self, autojump_clock):
        async with metered() as (mesh, channel, its):
            put(mesh, Script(StatusCode.NOT_FOUND))
            with pytest.raises(RpcError):
                await method(channel, FAIL)(b"")
            assert set(its.read(CALL, "grpc.status")) == {("OK",), ("NOT_FOUND",)}

    async def test_messages_count_as_they_are_compressed(self, autojump_clock):
        async with metered(compression="gzip") as (mesh, channel, its):
            put(mesh, Script(StatusCode.OK))
            await method(channel, FAIL)(b"x" * 10_000)
            assert its.read(SENT)[OK][1] < 100

    async def test_the_size_of_a_stream_is_the_sum_of_its_messages(self, autojump_clock):
        async with metered() as (mesh, channel, its):
            async with bidi(channel).open() as call:
                for _ in range(3):
                    await call.send(b"four")
                    await call.receive()
                call.done_sending()
                assert await call.receive() is None
            assert its.read(SENT)[OK] == (2, 12)
            assert its.read(RECEIVED)[OK] == (2, len(mesh.hosts[0]) + 3 * (len(mesh.hosts[0]) + 5))

    async def test_buckets_are_those_of_the_proposal(self, autojump_clock):
        async with metered() as (_, _, its):
            assert its.points(CALL)[0].explicit_bounds == LATENCIES == its.points(DURATION)[0].explicit_bounds
            assert its.points(SENT)[0].explicit_bounds == SIZES == its.points(RECEIVED)[0].explicit_bounds

    def test_buckets_have_the_numbers_of_the_proposal(self):
        assert (len(LATENCIES), LATENCIES[1], LATENCIES[15], LATENCIES[-1]) == (41, 0.00001, 0.013, 100)
        assert (0, 1024, 2048, 4096, 16384, 65536, 262144, *(4**n for n in (10, 11, 12, 13, 14, 15, 16))) == SIZES

    async def test_a_method_of_protobuf_messages_has_its_name(self, autojump_clock):
        from google.protobuf.wrappers_pb2 import StringValue

        async with metered() as (mesh, channel, its):
            put(mesh, Script(StatusCode.OK))
            with pytest.raises(RpcError):  # `done` is no such message
                await channel.method(FAIL, StringValue, StringValue)(StringValue())
            assert set(its.read(STARTED, "grpc.method")) == {("other",), ("shop.Cart/Fail",)}

    async def test_a_path_may_be_allowed_as_a_name(self, autojump_clock):
        async with metered(how={"methods": lambda path: path == METHOD}) as (_, _, its):
            assert its.read(STARTED, "grpc.method") == {("shop.Cart/Add",): 1}

    async def test_an_attempt_lasts_from_before_its_pick(self, autojump_clock):
        async with metered(connected=False) as (mesh, channel, its):
            mesh.network.black_hole(mesh.hosts[0])
            with pytest.raises(RpcError):
                await ask(channel, timeout=5)
            assert its.read(DURATION, "grpc.status") == {("DEADLINE_EXCEEDED",): (1, pytest.approx(5))}

    async def test_two_telemetries_both_record(self, autojump_clock):
        one, other = Metered(), Metered()
        async with Mesh.run(1) as mesh, mesh.channel(telemetry=[*one.telemetry, *other.telemetry]) as channel:
            await ask(channel)
        assert one.read(STARTED) == other.read(STARTED) == {BASE: 1}


class TestLabelsOfHosts:
    LABELS = ("grpc.lb.locality", "grpc.lb.backend_service")

    async def test_the_labels_for_locality_and_backend_service_are_optional(self, autojump_clock):
        async with metered(optional_labels=self.LABELS) as (_, _, its):
            where = ('{region="", zone="z0", sub_zone=""}', "cart")
            for name in (DURATION, SENT, RECEIVED):
                assert set(its.read(name, *self.LABELS)) == {where}
            assert set(dict(its.points(STARTED)[0].attributes)) == {"grpc.method", "grpc.target"}

    async def test_an_attempt_without_a_host_has_a_backend_and_no_locality(self, autojump_clock):
        async with metered(optional_labels=self.LABELS, connected=False) as (mesh, channel, its):
            mesh.network.refuse(mesh.hosts[0])
            with pytest.raises(RpcError):
                await ask(channel)
            assert set(its.read(DURATION, *self.LABELS)) == {("", "cart")}

    async def test_an_attempt_that_ends_after_its_host_has_left_has_the_locality_of_its_pick(self, autojump_clock):
        async with metered(optional_labels=self.LABELS, hosts=2, connected=False) as (mesh, channel, its):
            mesh.endpoints("cart", mesh.hosts[:1], mesh.hosts[1:])
            async with bidi(channel).open() as call:
                await call.send(b"")
                host = (await call.receive()).decode().strip()
                mesh.endpoints("cart", [each for each in mesh.hosts if each != host])
                await trio.sleep(1)
                call.done_sending()
                assert await call.receive() is None
            zone = mesh.hosts.index(host)
            assert set(its.read(DURATION, *self.LABELS)) == {(f'{{region="", zone="z{zone}", sub_zone=""}}', "cart")}

    async def test_the_backend_of_an_aggregate_is_its_leaf(self, autojump_clock):
        its = Metered(optional_labels=self.LABELS)
        async with Mesh.run(1, sessions=False) as mesh:
            mesh.plane.put(xds.aggregate("all", "cart"))
            mesh.route("all")
            async with mesh.channel(telemetry=its.telemetry) as channel:
                await ask(channel)
        assert set(its.read(DURATION, "grpc.lb.backend_service")) == {("cart",)}

    @pytest.mark.parametrize("host", ["is down", "does not answer", "has max_requests already"])
    async def test_the_backend_of_an_attempt_without_a_host_is_the_aggregates_leaf(self, host, autojump_clock):
        its = Metered(optional_labels=self.LABELS)
        async with Mesh.run(1, sessions=False) as mesh:
            mesh.plane.put(xds.aggregate("all", "cart"))
            mesh.route("all")
            match host:
                case "is down":
                    mesh.network.refuse(mesh.hosts[0])
                case "does not answer":
                    mesh.network.black_hole(mesh.hosts[0])
                case _:
                    mesh.plane.put({**xds.cluster("cart"), "circuit_breakers": {"thresholds": [{"max_requests": 0}]}})
            async with mesh.channel(telemetry=its.telemetry) as channel:
                with pytest.raises(RpcError):
                    await ask(channel, timeout=1)
        assert set(its.read(DURATION, *self.LABELS)) == {("", "cart")}

    async def test_a_custom_label_of_the_caller_is_recorded(self, autojump_clock):
        def label(call):
            return str(call.metadata.first("tenant") or "")

        how = {"custom_label": label}
        async with metered(optional_labels=("grpc.client.call.custom",), how=how) as (_, channel, its):
            await ask(channel, metadata=[("tenant", "blue")])
            for name in (STARTED, DURATION, SENT, RECEIVED, CALL):
                assert set(its.read(name, "grpc.client.call.custom")) == {("",), ("blue",)}

    async def test_a_call_without_a_custom_label_has_an_empty_one(self, autojump_clock):
        how = {"custom_label": lambda call: call.metadata.first("tenant")}
        async with metered(optional_labels=("grpc.client.call.custom",), how=how) as (_, _, its):
            assert set(its.read(CALL, "grpc.client.call.custom")) == {("",)}


class TestA96:
    NAMES = ("retries", "transparent_retries", "hedges", "retry_delay")

    def read(self, its):
        found = {name: its.read(f"grpc.client.call.{name}") for name in self.NAMES}
        return {name: values[BASE] for name, values in found.items() if values}

    async def test_a_call_without_retries_records_nothing(self, autojump_clock):
        async with metered("grpc.client.call") as (_, _, its):
            assert self.read(its) == {}

    async def test_retries_and_their_delays_are_recorded(self, monkeypatch, autojump_clock):
        policy = {"maxAttempts": 4, "initialBackoff": "10s", "maxBackoff": "10s", "backoffMultiplier": 1}
        policy["retryableStatusCodes"] = ["UNAVAILABLE"]
        its = Metered("grpc.client.call")
        async with Mesh.run(1) as mesh:
            how = {"telemetry": its.telemetry}
            async with configured(monkeypatch, mesh, for_all(retryPolicy=policy), **how) as channel:
                put(mesh, Script(StatusCode.UNAVAILABLE, StatusCode.UNAVAILABLE, StatusCode.OK))
                await method(channel, FAIL)(b"")
        read = self.read(its)
        assert read["retries"] == (1, 2) and set(read) == {"retries", "retry_delay"}
        assert 16 <= read["retry_delay"][1] <= 24
        assert its.read(DURATION, "grpc.status") == {
            ("UNAVAILABLE",): (2, pytest.approx(2)),
            ("OK",): (1, pytest.approx(1)),
        }
        assert its.points("grpc.client.call.retries")[0].explicit_bounds == (1, 2, 3, 4, 5)

    async def test_transparent_retries_are_recorded(self, autojump_clock):
        refused = []

        async def refuse_once(call):
            if not refused:
                refused.append(call)
                call.reset(ErrorCode.REFUSED_STREAM)
            else:
                await call.send(b"")

        async with metered("grpc.client.call") as (mesh, channel, its):
            put(mesh, refuse_once)
            await method(channel, FAIL)(b"")
            assert self.read(its) == {"transparent_retries": (1, 1)}
            assert its.points("grpc.client.call.transparent_retries")[0].explicit_bounds == (1, 2, 3, 4, 5, 10)

    async def test_hedges_overlap_and_delay_nothing(self, monkeypatch, autojump_clock):
        slow = [100, 100, 1]

        async def host(call):
            await trio.sleep(slow.pop(0) if slow else 0)
            await call.send(b"")

        policy = {"maxAttempts": 4, "hedgingDelay": "2s", "nonFatalStatusCodes": []}
        its = Metered("grpc.client.call")
        async with Mesh.run(1) as mesh:
            how = {"telemetry": its.telemetry}
            async with configured(monkeypatch, mesh, for_all(hedgingPolicy=policy), **how) as channel:
                put(mesh, host)
                await method(channel, FAIL)(b"")
        assert self.read(its) == {"hedges": (1, 2)}
        assert its.read(DURATION, "grpc.status") == {
            ("OK",): (1, pytest.approx(1)),
            ("CANCELLED",): (2, pytest.approx(8)),
        }


class TestSemanticConventions:
    async def test_a_call_has_opentelemetrys_own_name_too(self, autojump_clock):
        async with metered(how={"semconv": True}) as (mesh, channel, its):
            put(mesh, Script(StatusCode.ABORTED))
            with pytest.raises(RpcError):
                await method(channel, FAIL)(b"")
            labels = {"rpc.system.name": "grpc", "rpc.method": "_OTHER", "server.address": "shop"}
            failed = {"rpc.response.status_code": "ABORTED", "error.type": "ABORTED"}
            assert set(its.read("rpc.client.call.duration")) == {
                tuple(sorted({**labels, "rpc.response.status_code": "OK"}.items())),
                tuple(sorted({**labels, **failed}.items())),
            }
