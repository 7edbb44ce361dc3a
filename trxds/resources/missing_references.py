"""Names in a file of xDS resources that lead nowhere: routes to clusters that do not exist, clusters without endpoints.

Each resource is valid by itself, so a client accepts it, and then the calls fail or wait. Only the whole file shows it.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

import yaml
from msgspec import Struct

from .cluster import Cluster
from .discovery import Aggregate, Eds
from .endpoint import ClusterLoadAssignment
from .listener import Listener
from .proto_yaml_validator import Problem, YamlNode
from .route import RouteConfig
from .types import CDS, EDS, RDS, ResourceType

ResourceKeys: TypeAlias = Collection[tuple[str, str]]
"""The (type URL, name) of every resource in the file, also of those that clients refuse."""


class ReadResource(Struct, frozen=True):
    """A resource that clients accept, as trxds itself reads it, and its place in the file."""

    place: YamlNode
    parsed: object


class Reference(Struct, frozen=True):
    """The name of another resource in a resource; `subject` says whose it is, and `keys` are the fields that have it.

    Below no other field is it looked for, because a resource and its virtual hosts often have the same name.
    """

    source: ReadResource
    subject: str
    kind: ResourceType
    name: str
    keys: tuple[str, ...] = ()


def find_missing_references(found: Sequence[ReadResource], names: ResourceKeys) -> Iterator[Problem]:
    """Yield a warning for each name that leads nowhere, and for each cluster in use that has no endpoints."""
    references = [reference for each in found for reference in _references(each)]
    # A cluster that nothing leads to yet may get its endpoints later, and fails no call.
    used = {each.name for each in references if each.kind is CDS}
    endpoints = [each for resource in found for each in _endpoints(resource, used)]
    for reference in (*references, *endpoints):
        # An xdstp: name may be one of another authority, whose server has it (A47).
        if (reference.kind.type_url, reference.name) not in names and not reference.name.startswith("xdstp:"):
            yield _missing(reference, names)
    services = {each.name for each in endpoints}
    for resource in found:
        match resource.parsed:
            case ClusterLoadAssignment(name, priorities) if name in services:
                if not any(locality.endpoints for localities in priorities for locality in localities):
                    counting = "healthy, or of unknown health, in a locality with a load_balancing_weight"
                    text = f'EDS resource "{name}" has no endpoints that count ({counting}); calls to its cluster fail'
                    yield _warning(resource.place.node, text)


def _references(resource: ReadResource) -> Iterator[Reference]:
    """Yield the names of route tables and clusters."""
    match resource.parsed:
        case Listener(name, rds_name, route_config):
            if rds_name is not None:
                keys = ("route_config_name", "routeConfigName")
                yield Reference(resource, f'LDS resource "{name}" takes its routes from', RDS, rds_name, keys)
            if route_config is not None:
                yield from _clusters(resource, f'LDS resource "{name}" routes to', route_config)
        case RouteConfig(name):
            yield from _clusters(resource, f'RDS resource "{name}" routes to', resource.parsed)
        case Cluster(name, Aggregate(clusters)):
            for cluster in clusters:
                yield Reference(resource, f'aggregate cluster "{name}" has', CDS, cluster, ("clusters",))


def _clusters(resource: ReadResource, subject: str, routes: RouteConfig) -> Iterator[Reference]:
    actions = (route.action for host in routes.virtual_hosts for route in host.routes)
    # Once for each name, however many routes have it.
    names = dict.fromkeys(cluster.name for action in actions if action is not None for cluster in action.clusters)
    yield from (Reference(resource, subject, CDS, name, ("route",)) for name in names)


def _endpoints(resource: ReadResource, used: Collection[str]) -> Iterator[Reference]:
    match resource.parsed:
        case Cluster(name, Eds(service)) if name in used:
            yield Reference(resource, f'cluster "{name}" has no endpoints: it takes them from', EDS, service)


def _missing(reference: Reference, names: ResourceKeys) -> Problem:
    kind, name = reference.kind, reference.name
    alike = difflib.get_close_matches(name, [other for url, other in names if url == kind.type_url], n=1)
    remedy = f'did you mean "{alike[0]}"?' if alike else "its calls fail"
    node = reference.source.place.node
    text = f'{reference.subject} {kind.kind} resource "{name}", which is not in the file; {remedy}'
    return _warning(_find(node, name, reference.keys) or node, text)


def _warning(node: yaml.Node, text: str) -> Problem:
    return Problem(node.start_mark.line + 1, "", f"warning: {text}")


def _find(node: yaml.Node, name: str, keys: tuple[str, ...], *, inside: bool = False) -> yaml.Node | None:
    """Return the first value `name` below one of the keys; `inside`: one of them is above this node."""
    if isinstance(node, yaml.ScalarNode):
        return node if inside and node.value == name else None
    if isinstance(node, yaml.MappingNode):
        below = [(value, inside or key.value in keys) for key, value in node.value]
    else:
        below = [(value, inside) for value in node.value]
    return next((found for each, within in below if (found := _find(each, name, keys, inside=within))), None)
