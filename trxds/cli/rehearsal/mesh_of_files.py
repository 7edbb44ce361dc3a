"""What the resources of the files name: hosts, names for DNS, targets, methods, and what a bootstrap has to know."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from trxds.client.method import checked_path
from trxds.core.plural import plural
from trxds.resources.address import address_text
from trxds.resources.route import VirtualHost, find_virtual_host
from trxds.testing.resources import Resource as ResourceDict
from trxds.testing.resources import bootstrap
from trxds.testing.simulation.simulation import PLANE_ADDRESS
from trxds.xds.resource_names import Target, canonical

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
    for socket in _values(data, "socket_address", "socketAddress"):
        host, port = str(socket.get("address", "")), socket.get("port_value", socket.get("portValue"))
        if host and port is not None:
            yield host, int(port)


def targets(resources: Iterable[Resource]) -> tuple[str, ...]:
    """Return a target for each listener of clients."""
    return tuple(
        _target(str(each["name"]))
        for each in resources
        if each["@type"].endswith("listener.v3.Listener") and ("api_listener" in each or "apiListener" in each)
    )


def _target(listener: str) -> str:
    scheme, _, rest = listener.partition("://")
    if scheme != "xdstp":
        return f"xds:///{listener.replace('%', '%25')}"  # a target is decoded, and such a name is not
    authority, _, path = rest.partition("/")
    return f"xds://{authority}/{path.partition('/')[2]}"


def matches(resources: Iterable[Resource], target: Target) -> list[Any]:
    """Return the match of each route that a target has in any of the files; those of other virtual hosts are not its.

    A route that is in several files is there once.
    """
    found: dict[str, Any] = {}
    for table in _route_tables(resources, canonical(target.listener)):
        hosts = list(next(_values(table, "virtual_hosts", "virtualHosts"), ()))
        domains = [VirtualHost(str(at), tuple(each.get("domains", ()))) for at, each in enumerate(hosts)]
        if (chosen := find_virtual_host(domains, target.authority)) is not None:
            for match in _values(hosts[int(chosen.name)], "match"):
                found.setdefault(json.dumps(match, sort_keys=True), match)
    return list(found.values())


def methods(matches: Iterable[Any]) -> tuple[str, ...]:
    """Return a method for each route, so that the calls use all of them."""
    found: dict[str, None] = {}
    for match in matches:
        with suppress(ValueError):  # a route that no method can have, as the prefix /a/b/c
            found[checked_path(_method(match))] = None
    return tuple(found) or (DEFAULT_METHOD,)


def untried(matches: Iterable[Any], *, are_named: bool) -> Iterator[str]:
    """Yield which routes the calls may not use; `are_named`: the methods are those of --method."""
    routes = [each for each in matches if isinstance(each, dict)]
    by_headers = [each for each in routes if each.get("headers")]
    by_pattern = [each for each in routes if not each.get("headers") and ("safe_regex" in each or "safeRegex" in each)]
    if by_headers:
        yield f"no call has the headers of {plural(len(by_headers), 'route')}: what would move there is not seen"
    if by_pattern and not are_named:
        yield f"no call is made for {plural(len(by_pattern), 'route')} by regular expression; name methods by --method"


def _route_tables(resources: Iterable[Resource], listener: str) -> Iterator[Any]:
    """Yield the route configurations of a listener, its own and those that it names."""
    named: set[Any] = set()
    tables = []
    for each in resources:
        if each["@type"].endswith("RouteConfiguration"):
            tables.append(each)
        elif each["@type"].endswith("listener.v3.Listener") and canonical(str(each["name"])) == listener:
            yield from _values(each, "route_config", "routeConfig")
            named.update(_values(each, "route_config_name", "routeConfigName"))
    yield from (each for each in tables if each["name"] in named)


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


def bootstrap_of(resources: Iterable[Resource], node: str, *, delta: bool) -> ResourceDict:
    """Return the bootstrap of one client: it knows the authorities and certificate providers that the files name."""
    made = bootstrap(PLANE_ADDRESS, node=node, features=("xds_v3", *(["trxds.delta"] if delta else [])))
    listed = list(resources)
    authorities = {
        name.removeprefix("xdstp://").partition("/")[0] for name in _texts(listed) if name.startswith("xdstp://")
    }
    if authorities:
        made["authorities"] = {each: {} for each in sorted(authorities)}
    providers = {str(each) for resource in listed for each in _values(resource, "instance_name", "instanceName")}
    if providers:
        # Hosts of a rehearsal have no certificates and are called without TLS, so nothing is read from the files.
        config = {"plugin_name": "file_watcher", "config": {"ca_certificate_file": "/rehearsal/ca.pem"}}
        made["certificate_providers"] = dict.fromkeys(sorted(providers), config)
    return made


def _values(data: Any, *keys: str) -> Iterator[Any]:
    """Yield the values of these keys, wherever they are, in order."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key in keys:
                yield value
            yield from _values(value, *keys)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _values(value, *keys)


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from _texts(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _texts(value)
