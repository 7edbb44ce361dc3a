"""Rows of xDS resources: the state of each, and its error."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trxds.xds.resource import STALE, CacheState, Resource
from trxds.xds.xds_client import XdsClient

from .messages import ResourceRow


def resources(channel: str, client: XdsClient, epoch: Callable[[float], float]) -> Iterator[tuple[str, ResourceRow]]:
    for each in tuple(client.resources):
        server = ", ".join(client.servers_for(each.name))
        yield f"{channel}/{each.type.kind}/{each.name}", _row(channel, each, server, epoch)


def _row(channel: str, resource: Resource, server: str, epoch: Callable[[float], float]) -> ResourceRow:
    state = resource.shown_state
    came = resource.accepted if state in (CacheState.ACKED.value, STALE) else resource.failed
    return {
        "channel": channel,
        "type": resource.type.kind,
        "name": resource.name,
        "state": state,
        "version": resource.accepted.version if resource.accepted is not None else "",
        "since": None if came is None else epoch(came.at),
        "server": server,
        "error": _error(resource),
    }


def _error(resource: Resource) -> str:
    if resource.failure is not None and resource.shown_state != STALE:
        return resource.failure.reason
    published = resource.last_published
    problem = None if published is None else published.error or published.ambient
    return "" if problem is None else problem.message
