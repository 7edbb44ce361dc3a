"""Rows of xDS resources: the state of each, and its error."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trxds.xds.resource import STALE, CacheState, Resource
from trxds.xds.xds_client import XdsClient

from .messages import ResourceRow


def resources(channel: str, client: XdsClient, epoch: Callable[[float], float]) -> Iterator[tuple[str, ResourceRow]]:
    for each in tuple(client.resources):
        servers, outage = client.servers_for(each.name)
        row = _row(channel, each, ", ".join(servers), _error(each, outage), epoch)
        yield f"{channel}/{each.type.kind}/{each.name}", row


def _row(channel: str, resource: Resource, server: str, error: str, epoch: Callable[[float], float]) -> ResourceRow:
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
        "error": error,
    }


def _error(resource: Resource, outage: str) -> str:
    """Return what is wrong with a resource, without the type, name and state that its row has already."""
    if resource.shown_state != STALE:
        if resource.failure is not None:
            return resource.failure.reason
        if outage:
            return outage
    published = resource.last_published
    problem = None if published is None else published.error or published.ambient
    return "" if problem is None else problem.message
