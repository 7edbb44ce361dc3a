"""The client reports the load of clusters with an `lrs_server` (LRS; A27, A64, A85)."""

import logging
from contextlib import asynccontextmanager
from itertools import count, pairwise

import pytest
import trio
from support.mesh import METHOD, PLANE, Mesh, ask, bidi, method, spread
from trio.testing import wait_all_tasks_blocked

import trxds
import trxds.admin
from trxds import RpcError, StatusCode
from trxds.resources import protos
from trxds.session_affinity.cookie import encode
from trxds.testing import ManagementServer, load
from trxds.testing import resources as xds
from trxds.transport.client_stream import ClientStream


@asynccontextmanager
async def mesh_and_channel(hosts=2, interval=10.0, metrics=(), **more):
    """Run a cluster with a locality for each host ("z0", "z1", ...), whose load is reported."""
    async with Mesh.run(hosts, **more) as mesh:
        mesh.plane.put(xds.cluster("cart") | xds.load_reports(*metrics))
        mesh.endpoints("cart", *([host] for host in mesh.hosts))
        mesh.plane.load.ask(interval=interval)
        async with mesh.channel() as channel:
            yield mesh, channel


def rpcs(stats):
    """Return the counts of issued, succeeded, failed and running RPCs by zone."""
    return {
        each.locality.zone: (
            each.total_issued_requests,
            each.total_successful_requests,
            each.total_error_requests,
            each.total_requests_in_progress,
        )
        for each in stats.upstream_locality_stats
    }


async def report(mesh):
    """Return the next load report of cluster cart."""
    return (await mesh.plane.load.next_report()).clusters["cart"]


async def refuse(call):
    call.abort(StatusCode.UNAVAILABLE, "not me")


async def test_the_first_lrs_request_has_the_node_only(autojump_clock):
    async with mesh_and_channel() as (mesh, channel):
        await ask(channel)
        await trio.sleep(1)
        [first] = mesh.plane.load.requests
        assert first.node.id == "trxds-test"
        assert "envoy.lrs.supports_send_all_clusters" in first.node.client_features
        assert first.clusters == {}


@pytest.mark.parametrize("service", ["", "cart", "hosts-of-cart"])
async def test_a_load_report_has_the_service_name_as_the_cluster_has_it(autojump_clock, service):
    async with mesh_and_channel(hosts=1) as (mesh, channel):
        cluster = xds.cluster("cart") | xds.load_reports()
        cluster["eds_cluster_config"] = {**cluster["eds_cluster_config"], "service_name": service}
        mesh.plane.put(cluster, xds.endpoints(service or "cart", xds.locality(*mesh.hosts)))
        await ask(channel)
        assert (await report(mesh)).cluster_service_name == service


async def test_a_load_report_counts_from_the_last_report(autojump_clock):
    async with mesh_and_channel(hosts=1) as (mesh, channel):
        await spread(channel, 5)
        assert rpcs(await report(mesh)) == {"z0": (5, 5, 0, 0)}
        await spread(channel, 2)
        mesh.servers[mesh.hosts[0]].handlers[METHOD] = refuse
        with pytest.raises(RpcError):
            await ask(channel)
        stats = await report(mesh)
        assert rpcs(stats) == {"z0": (3, 2, 1, 0)}
        assert stats.load_report_interval.ToTimedelta().total_seconds() == pytest.approx(10, abs=0.01)


async def test_every_load_report_has_the_rpcs_in_progress(autojump_clock):
    async with mesh_and_channel(hosts=1) as (mesh, channel), bidi(channel).open() as call:
        await call.send(b"")
        await call.receive()
        assert rpcs(await report(mesh)) == {"z0": (1, 0, 0, 1)}
        assert rpcs(await report(mesh)) == {"z0": (0, 0, 0, 1)}
        call.done_sending()
        assert [message async for message in call] == []
        assert rpcs(await report(mesh)) == {"z0": (0, 1, 0, 0)}


async def test_a_load_report_has_the_localities_of_the_picked_hosts(autojump_clock):
    async with mesh_and_channel(hosts=3) as (mesh, channel):
        met = await spread(channel, 30)
        counts = {f"z{number}": (met[host], met[host], 0, 0) for number, host in enumerate(mesh.hosts) if met[host]}
        assert rpcs(await report(mesh)) == counts


async def test_an_override_host_counts_for_its_own_locality_in_load_reports(autojump_clock):
    async with mesh_and_channel() as (mesh, channel):
        low, high = mesh.hosts
        mesh.endpoints("cart", xds.locality(low, zone="low"), xds.locality(high, zone="high", priority=1))
        await ask(channel)
        await mesh.plane.load.next_report()
        assert mesh.network.attempts[high] == 0
        cookie = f"session={encode(high, 'cart')}"
        assert set(await spread(channel, 3, metadata=[("cookie", cookie)])) == {high}
        assert rpcs(await report(mesh)) == {"high": (3, 3, 0, 0)}


async def test_a_load_report_has_drops_by_category(autojump_clock):
    async with mesh_and_channel(hosts=1) as (mesh, channel):
        await ask(channel)
        drops = [{"category": "lb", "drop_percentage": {"numerator": 100}}]
        mesh.plane.put(xds.endpoints("cart", xds.locality(*mesh.hosts)) | {"policy": {"drop_overloads": drops}})
        await trio.sleep(0.1)
        for _ in range(4):
            with pytest.raises(RpcError, match="EDS-configured drop: lb"):
                await ask(channel)
        stats = await report(mesh)
        assert stats.total_dropped_requests == 4
        assert [(each.category, each.dropped_count) for each in stats.dropped_requests] == [("lb", 4)]


async def test_a_load_report_has_the_custom_metrics_that_the_cluster_names(autojump_clock):
    async def loaded(call):
        values = protos.OrcaLoadReport(cpu_utilization=0.5, named_metrics={"queue": 3.0, "other": 1.0})
        call.set_trailing_metadata([("endpoint-load-metrics-bin", values.SerializeToString())])
        async for message in call:
            await call.send(message)

    named = ["cpu_utilization", "named_metrics.queue"]
    async with mesh_and_channel(hosts=1, metrics=named) as (mesh, channel):
        mesh.servers[mesh.hosts[0]].handlers[METHOD] = loaded
        await spread(channel, 2)
        [locality] = (await report(mesh)).upstream_locality_stats
        cpu = locality.cpu_utilization
        assert (cpu.num_requests_finished_with_metric, cpu.total_metric_value) == (2, 1.0)
        [queue] = locality.load_metric_stats
        assert queue.metric_name == "named_metrics.queue"
        assert (queue.num_requests_finished_with_metric, queue.total_metric_value) == (2, 6.0)


# -- the server's pick_events


async def test_a_load_report_has_only_the_clusters_that_the_server_names(autojump_clock):
    async with mesh_and_channel(hosts=1) as (mesh, channel):
        mesh.plane.load.ask("other", interval=10)
        await ask(channel)
        assert (await mesh.plane.load.next_report()).clusters == {}
        mesh.plane.load.ask("other", "cart", interval=10)
        await ask(channel)
        assert rpcs(await report(mesh)) == {"z0": (1, 1, 0, 0)}


async def test_a_new_reporting_interval_begins_at_its_response_and_is_at_least_a_second(autojump_clock):
    async with mesh_and_channel(interval=1000) as (mesh, channel):
        await ask(channel)
        await trio.sleep(100)
        mesh.plane.load.ask(interval=0.001)
        asked = trio.current_time()
        times = [(await mesh.plane.load.next_report()).at - asked for _ in range(3)]
        assert times == pytest.approx([1, 2, 3], abs=0.01)


async def test_a_load_report_without_rpcs_is_sent_too(autojump_clock):
    async with mesh_and_channel() as (mesh, channel):
        await ask(channel)
        await mesh.plane.load.next_report()
        assert (await mesh.plane.load.next_report()).clusters == {}


# -- streams


async def test_no_lrs_stream_opens_for_clusters_without_lrs_server(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        await trio.sleep(5)
        assert mesh.plane.load.requests == []


async def test_the_lrs_stream_ends_with_the_last_cluster_that_has_lrs_server(autojump_clock):
    async with mesh_and_channel() as (mesh, channel):
        mesh.plane.put(xds.cluster("shoes") | xds.load_reports())
        mesh.endpoints("shoes", mesh.hosts)
        mesh.route({"cart": 1, "shoes": 1})
        await ask(channel)
        await trio.sleep(1)
        assert mesh.plane.load.streams == 1
        mesh.cluster("shoes")
        await trio.sleep(1)
        assert mesh.plane.load.streams == 1
        mesh.cluster("cart")
        await trio.sleep(1)
        assert mesh.plane.load.streams == 0


async def test_the_lrs_stream_ends_with_the_channel(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.plane.put(xds.cluster("cart") | xds.load_reports())
        async with mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(1)
            assert mesh.plane.load.streams == 1
        await wait_all_tasks_blocked()
        assert mesh.plane.load.streams == 0


async def test_a_lost_lrs_stream_is_reopened_and_reports_the_counts_of_the_gap(autojump_clock):
    async with mesh_and_channel(hosts=1) as (mesh, channel):
        await ask(channel)
        await trio.sleep(1)
        mesh.plane.load.drop_streams()
        await trio.sleep(0.1)
        assert mesh.plane.load.streams == 0
        await ask(channel)
        assert rpcs(await report(mesh)) == {"z0": (2, 2, 0, 0)}
        assert [each.stream for each in mesh.plane.load.requests] == [1, 2, 2]


async def test_a_report_that_could_not_be_sent_is_part_of_the_next_one(autojump_clock, monkeypatch):
    send, waits = ClientStream.send, trio.Event()

    async def send_all_but_the_first_report(stream, message, **more):
        is_report = protos.LoadStatsRequest.FromString(message).cluster_stats
        if is_report and not waits.is_set():
            waits.set()
            await trio.sleep_forever()  # as if the server's windows were closed
        return await send(stream, message, **more)

    async with mesh_and_channel(hosts=1) as (mesh, channel):
        await ask(channel)
        monkeypatch.setattr("trxds.transport.client_stream.ClientStream.send", send_all_but_the_first_report)
        await waits.wait()
        mesh.plane.load.drop_streams()
        await ask(channel)
        assert rpcs(await report(mesh)) == {"z0": (2, 2, 0, 0)}


async def test_the_report_after_one_that_was_cut_covers_the_time_of_both(autojump_clock, monkeypatch):
    send, cut = ClientStream.send, trio.Event()

    async def send_all_but_the_first_report(stream, message, **more):
        if protos.LoadStatsRequest.FromString(message).cluster_stats and not cut.is_set():
            cut.set()
            return False  # as if the stream had ended while the report waited for the server's window
        return await send(stream, message, **more)

    async with mesh_and_channel(hosts=1) as (mesh, channel):
        await ask(channel)
        monkeypatch.setattr("trxds.transport.client_stream.ClientStream.send", send_all_but_the_first_report)
        began = trio.current_time()
        await cut.wait()
        mesh.plane.load.drop_streams()
        stats = await report(mesh)
        assert rpcs(stats) == {"z0": (1, 1, 0, 0)}
        covered = stats.load_report_interval.ToTimedelta().total_seconds()
        assert covered == pytest.approx(trio.current_time() - began, abs=0.01)


async def test_what_an_lrs_server_asked_for_on_one_stream_does_not_hold_for_the_next(autojump_clock, monkeypatch):
    send, waits, received = ClientStream.send, trio.Event(), []

    async def send_no_report(stream, message, **more):
        if protos.LoadStatsRequest.FromString(message).cluster_stats:
            waits.set()
            await trio.sleep_forever()  # as if the server's windows were closed
        return await send(stream, message, **more)

    async def ask_for_nothing(call):
        async for message in call:
            received.append(protos.LoadStatsRequest.FromString(message))

    async with mesh_and_channel(hosts=1) as (mesh, channel):
        await ask(channel)
        monkeypatch.setattr("trxds.transport.client_stream.ClientStream.send", send_no_report)
        await waits.wait()
        mesh.plane.load.ask(interval=5)  # the client reads it, and cannot follow it any more
        await trio.sleep(1)
        monkeypatch.undo()
        mesh.plane_server.handlers[load.PATH] = ask_for_nothing
        mesh.plane.load.drop_streams()
        await trio.sleep(60)
        assert [each.HasField("node") for each in received] == [True]


async def test_the_end_of_an_answered_lrs_stream_is_no_warning_and_an_outage_is_one(autojump_clock, caplog):
    caplog.set_level(logging.INFO, "trxds.xds")
    async with mesh_and_channel(hosts=1) as (mesh, channel):
        await ask(channel)
        for _ in range(2):
            await mesh.plane.load.next_report()
            mesh.plane.load.drop_streams()
        await mesh.plane.load.next_report()
        mesh.network.refuse(PLANE)
        mesh.network.cut(PLANE)
        await trio.sleep(60)
    told = [record for record in caplog.records if "no load reports to" in record.message]
    assert [record.levelname for record in told[:3]] == ["INFO"] * 3
    assert [record.levelname for record in told[3:]].count("WARNING") == 1


async def test_an_outage_whose_reason_ended_an_answered_lrs_stream_before_is_a_warning(autojump_clock, caplog):
    caplog.set_level(logging.INFO, "trxds.xds")
    streams = count()

    async def answer_only_the_first_stream(call):
        if next(streams) == 0:
            await call.send(protos.LoadStatsResponse(send_all_clusters=True).SerializeToString())
        call.abort(StatusCode.UNAVAILABLE, "overloaded")

    async with mesh_and_channel(hosts=1) as (mesh, channel):
        mesh.plane_server.handlers[load.PATH] = answer_only_the_first_stream
        await ask(channel)
        await trio.sleep(60)
    told = [record.levelname for record in caplog.records if "no load reports to" in record.message]
    assert told[:3] == ["INFO", "WARNING", "INFO"]


async def test_an_lrs_stream_that_was_answered_is_followed_by_another_in_a_second_however_often_that_is(autojump_clock):
    async with mesh_and_channel(hosts=1) as (mesh, channel):
        await ask(channel)
        await mesh.plane.load.next_report()
        for _ in range(6):
            mesh.plane.load.drop_streams()
            await trio.sleep(1.3)
            assert mesh.plane.load.streams == 1


async def test_a_server_without_lrs_is_retried_with_backoff_and_logged_once(autojump_clock, caplog):
    caplog.set_level(logging.INFO, "trxds.xds")
    async with mesh_and_channel(hosts=1) as (mesh, channel):
        times = []

        async def unimplemented(call):
            times.append(trio.current_time())
            call.abort(StatusCode.UNIMPLEMENTED, "no load reports here")

        mesh.plane_server.handlers[load.PATH] = unimplemented
        await ask(channel)
        await trio.sleep(60)
        assert await ask(channel) in mesh.hosts
    waits = [after - before for before, after in pairwise(times)]
    assert waits == sorted(waits)
    assert 5 < len(waits) < 10
    told = [record for record in caplog.records if "no load reports to" in record.message]
    assert [record.levelname for record in told].count("WARNING") == 1
    assert "UNIMPLEMENTED" in told[0].message


async def test_bytes_that_are_no_lrs_response_are_a_warning_and_the_stream_goes_on(autojump_clock, caplog):
    async with mesh_and_channel(hosts=1) as (mesh, channel):

        async def garbled(call):
            await call.send(b"\xff")
            await mesh.plane.load.handle(call)

        mesh.plane_server.handlers[load.PATH] = garbled
        await ask(channel)
        assert rpcs(await report(mesh)) == {"z0": (1, 1, 0, 0)}
        assert {each.stream for each in mesh.plane.load.requests} == {1}
    assert f"xDS server {PLANE}: bytes that are no LoadStatsResponse; ignored" in caplog.messages


async def test_channels_of_a_shared_client_report_their_load_together(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.plane.put(xds.cluster("cart") | xds.load_reports())
        mesh.plane.load.ask(interval=5)
        async with (
            trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network) as client,
            trxds.open_channel("xds:///shop", xds=client, network=mesh.network) as one,
            trxds.open_channel("xds:///shop", xds=client, network=mesh.network) as other,
        ):
            await ask(one)
            await method(other)(b"")
            assert rpcs(await report(mesh)) == {"z0": (2, 2, 0, 0)}
            assert mesh.plane.load.streams == 1


async def test_load_reports_move_to_the_server_that_sends_the_cluster(autojump_clock):
    first, second = "10.0.0.1:18000", "10.0.0.2:18000"
    async with Mesh.run(1) as mesh:
        stand_in = ManagementServer()
        for plane in (mesh.plane, stand_in):
            plane.put(
                xds.listener("shop", routes="routes"),
                xds.routes("routes", xds.route("cart")),
                xds.cluster("cart") | xds.load_reports(),
                xds.endpoints("cart", xds.locality(*mesh.hosts)),
            )
        mesh.network.refuse(first)
        bootstrap = xds.bootstrap(first, second)
        async with stand_in.serve(second, mesh.network), mesh.channel(bootstrap=bootstrap) as channel:
            await ask(channel, wait_for_ready=True)
            assert rpcs((await stand_in.load.next_report()).clusters["cart"]) == {"a": (1, 1, 0, 0)}
            mesh.network.restore(first)
            with trio.fail_after(300):
                await mesh.plane.load.next_report()
            await ask(channel)
            assert rpcs(await report(mesh)) == {"a": (1, 1, 0, 0)}
            assert (mesh.plane.load.streams, stand_in.load.streams) == (1, 0)
