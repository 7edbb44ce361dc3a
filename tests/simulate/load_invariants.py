"""The invariants of load reports (LRS): what a control plane is told of the calls that the hosts of a cluster got."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import trio

from trxds.testing.load import LoadRequest
from trxds.testing.simulation.simulation import LATENCY

from .planes import REPORT_INTERVAL, Plane
from .world import World

_NEAR = 2 * LATENCY  # seconds: a report that is on its way at the end of its stream may come or not
AFTER_CALLS = 2 * REPORT_INTERVAL  # seconds after which every report of a call's end has come


def end_load_streams(world: World) -> None:
    """End every load report stream, but those on which a report may be on its way."""
    now = trio.current_time()
    for plane in world.model.planes.all:
        since_last = [now - each.at for each in plane.service.load.requests if now - each.at < 4 * REPORT_INTERVAL]
        if all(_NEAR < each % REPORT_INTERVAL < REPORT_INTERVAL - _NEAR for each in since_last):
            plane.service.load.drop_streams()


@dataclass(frozen=True)
class _Sender:
    """A client whose reports come to a control plane; the reports have the counts since the first one's time."""

    plane: Plane
    node: str
    reports: list[LoadRequest]


def _senders(world: World, since: float) -> Iterator[_Sender]:
    for plane in world.model.planes.all:
        nodes: dict[int, str] = {}
        reports: dict[str, list[LoadRequest]] = {}
        for each in plane.service.load.requests:
            if each.node is not None:
                nodes[each.stream] = each.node.id
            elif each.at >= since:
                reports.setdefault(nodes[each.stream], []).append(each)
        for node, found in reports.items():
            yield _Sender(plane, node, found)


def a_load_report_has_every_call(world: World, since: float) -> None:
    """In a calm, the reports between two times have each attempt in between once, also if their stream ends."""
    for sender in _senders(world, since):
        first, last = sender.reports[0].at - LATENCY, sender.reports[-1].at - LATENCY
        for leaf in world.model.leaves.values():
            reported = sum(_issued(each, leaf.name) for each in sender.reports[1:])
            issued = world.issued[sender.node, leaf.name] if leaf.reports_load else []
            fewest = sum(each.is_certain and first + _NEAR < each.at <= last - _NEAR for each in issued)
            most = sum(first - _NEAR < each.at <= last + _NEAR for each in issued)
            world.counts["calls in load reports"] += reported
            # The counts belong to the server that sent the cluster.
            if leaf.name.startswith("xdstp:") is not (sender.plane is world.model.planes.far):
                fewest = most = 0
            if not fewest <= reported <= most:
                text = f"{sender.node} told {sender.plane.address} of {reported} calls of {leaf.name} and made {fewest}"
                world.violated("a_load_report_has_every_call", f"{text} to {most}, from {first:.3f} to {last:.3f}")


def a_client_reports_the_load_that_is_asked_for(world: World, since: float) -> None:
    """In a calm, each client that calls clusters with load reports sends reports of them to their control plane."""
    told = {(sender.plane, sender.node) for sender in _senders(world, since)}
    planes = world.model.planes
    for (node, name), issued in world.issued.items():
        leaf = world.model.leaves.get(name)
        calls = sum(since <= each.at < trio.current_time() - 2 * REPORT_INTERVAL for each in issued)
        plane = planes.far if name.startswith("xdstp:") else planes.first
        if leaf is not None and leaf.reports_load and node in world.node_names and calls and (plane, node) not in told:
            text = f"{node} made {calls} calls of {name} and told {plane.address} of none"
            world.violated("a_client_reports_the_load_that_is_asked_for", text)


def no_reported_call_goes_on_for_ever(world: World) -> None:
    """Without calls, the last report has none in progress."""
    for sender in _senders(world, 0.0):
        # Reports end with the last cluster that asks for them.
        if sender.reports[-1].at < trio.current_time() - 1.5 * REPORT_INTERVAL:
            continue
        for stats in sender.reports[-1].stats:
            if calls := sum(_in_progress(stats)):
                name = stats.cluster_name
                text = f"{sender.node} told {sender.plane.address} last of {calls} calls of {name} in progress"
                world.violated("counts_return_to_zero", text)


def _issued(report: LoadRequest, cluster: str) -> int:
    found = [each for stats in report.stats if stats.cluster_name == cluster for each in stats.upstream_locality_stats]
    return sum(each.total_issued_requests for each in found)


def _in_progress(stats) -> Iterator[int]:
    return (each.total_requests_in_progress for each in stats.upstream_locality_stats)
