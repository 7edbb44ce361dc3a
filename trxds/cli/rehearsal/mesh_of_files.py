"""What the resources of the files name: hosts, names for DNS, routes and methods."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from trxds.client.method import checked_path
from trxds.resources.address import address_text
from trxds.resources.route import VirtualHost, find_virtual_host
from trxds.xds.resource_names import canonical

from .plan import Resource

DEFAULT_METHOD = "/rehearsal.Echo/Call"


def names(resources: Iterable[Resource]) -> dict[str, tuple[str, ...]]:
    """Return an address for each name that clusters look up in DNS, in 198.18.0.0/15 (RFC 2544: for tests)."""
    found = dict.fromkeys(host for host, port in _endpoints(resources) if address_text(host, port) is None)
    first = int(ipaddress.IPv4Address("198.18.0.1"))
    return {name: (str(ipaddress.IPv4Address(first + number)),) for number, name in enumerate(found)}


def addresses(resources: Iterable[Resource], names: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the addresses of all endpoints as clients write them, in the order of the files; `names` is their DNS."""
    found = (address_text(names.get(host, (host,))[0], port) for host, port in _endpoints(resources))
    return tuple(dict.fromkeys(address for address in found if address is not None))


def hosts_with_health(resources: Iterable[Resource]) -> frozenset[str]:
    """Return the addresses of the hosts whose health a control plane declares: those of EDS."""
    return frozenset(addresses((each for each in resources if each["@type"].endswith("ClusterLoadAssignment")), {}))


def logical_dns_hosts(resources: Iterable[Resource], names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the hosts of logical DNS clusters (A37), each with the name of its cluster."""
    clusters = [each for each in resources if each["@type"].endswith("Cluster")]
    return {address: str(each["name"]) for each in clusters for address in addresses((each,), names)}


def addresses_of(endpoint: Any) -> set[str | None]:
    """Return the addresses of an endpoint, which may have several (A61)."""
    return {address_text(host, port) for host, port in _sockets(endpoint)}


def _endpoints(resources: Iterable[Resource]) -> Iterator[tuple[str, int]]:
    """Yield the host of each endpoint, an IP address or a name that DNS has to find, and the port."""
    for resource in resources:
        if resource["@type"].endswith(("ClusterLoadAssignment", "Cluster")):
            yield from _sockets(resource)


def _sockets(data: Any) -> Iterator[tuple[str, int]]:
    for socket in values(data, "socket_address", "socketAddress"):
        host, port = str(socket.get("address", "")), socket.get("port_value", socket.get("portValue"))
        if host and port is not None:
            yield host, int(port)


def matches(tables: Iterable[Any], authority: str) -> list[Any]:
    """Return the match of each route that a target has in any of the files; those of other virtual hosts are not its.

    `tables` are its RouteConfigurations, and `authority` its own. A route that is in several files is there once.
    """
    found: dict[str, Any] = {}
    for table in tables:
        hosts = list(next(values(table, "virtual_hosts", "virtualHosts"), ()))
        domains = [VirtualHost(str(at), tuple(each.get("domains", ()))) for at, each in enumerate(hosts)]
        if (chosen := find_virtual_host(domains, authority)) is not None:
            for match in values(hosts[int(chosen.name)], "match"):
                found.setdefault(json.dumps(match, sort_keys=True), match)
    return list(found.values())


def methods(matches: Iterable[Any]) -> tuple[str, ...]:
    """Return a method for each route, so that the calls use all of them."""
    found: dict[str, None] = {}
    for match in matches:
        with suppress(ValueError):  # a route that no method can have, as the prefix /a/b/c
            found[checked_path(_method(match))] = None
    return tuple(found) or (DEFAULT_METHOD,)


def route_tables(resources: Iterable[Resource], listener: str) -> list[Any]:
    """Return the RouteConfigurations of a listener, its own and those that it names."""
    named: set[Any] = set()
    own: list[Any] = []
    tables = []
    for each in resources:
        if each["@type"].endswith("RouteConfiguration"):
            tables.append(each)
        elif each["@type"].endswith("listener.v3.Listener") and canonical(str(each["name"])) == canonical(listener):
            own += values(each, "route_config", "routeConfig")
            named.update(values(each, "route_config_name", "routeConfigName"))
    return [*own, *(each for each in tables if each["name"] in named)]


def _method(match: Any) -> str:
    if not isinstance(match, dict):
        return ""
    if path := match.get("path"):
        return str(path)
    prefix = match.get("prefix")
    if prefix is None:
        return ""  # a regular expression: `--method` names one that matches
    text = str(prefix).removeprefix("/")
    if not text:
        return DEFAULT_METHOD
    if "/" not in text:
        return f"/{text}{'Echo' if text.endswith('.') else ''}/Call"
    return f"/{text}Call" if text.endswith("/") else f"/{text}"


def values(data: Any, *keys: str) -> Iterator[Any]:
    """Yield the values of these keys, wherever they are, in order."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key in keys:
                yield value
            yield from values(value, *keys)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from values(value, *keys)


def texts(data: Any) -> Iterator[str]:
    """Yield all texts, in order."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from texts(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from texts(value)
