"""What the resources of the files name: hosts, names for DNS, targets, methods, and what a bootstrap has to know."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from trxds.cli.control_plane import host_and_port
from trxds.client.method import checked_path
from trxds.testing.resources import Resource as ResourceDict
from trxds.testing.resources import bootstrap
from trxds.testing.simulation.simulation import PLANE_ADDRESS

from .plan import Resource

DEFAULT_METHOD = "/rehearsal.Echo/Call"


def addresses(resources: Iterable[Resource]) -> tuple[str, ...]:
    """Return the addresses of all endpoints, in the order of the files; hosts that only DNS names are not in it."""
    return tuple(dict.fromkeys(address for name, address in _endpoints(resources) if not name))


def names(resources: Iterable[Resource]) -> dict[str, tuple[str, ...]]:
    """Return an address for each name that clusters look up in DNS, in 198.18.0.0/15 (RFC 2544: for tests)."""
    found = dict.fromkeys(name for name, _ in _endpoints(resources) if name)
    first = int(ipaddress.IPv4Address("198.18.0.1"))
    return {name: (str(ipaddress.IPv4Address(first + number)),) for number, name in enumerate(found)}


def named_addresses(resources: Iterable[Resource]) -> Iterator[tuple[str, str]]:
    """Yield each name in DNS, and its port."""
    for name, port in dict.fromkeys(_endpoints(resources)):
        if name:
            yield name, port


def addresses_of(endpoint: Any) -> set[str]:
    """Return the addresses of an endpoint, which may have several (A61)."""
    return {
        host_and_port(str(socket.get("address", "")), int(socket.get("port_value", socket.get("portValue", 0))))
        for socket in _values(endpoint, "socket_address", "socketAddress")
    }


def _endpoints(resources: Iterable[Resource]) -> Iterator[tuple[str, str]]:
    """Yield ("", address) for an endpoint with an IP address, and (name, port) for one that DNS has to find."""
    for resource in resources:
        if resource["@type"].endswith(("ClusterLoadAssignment", "Cluster")):
            for socket in _values(resource, "socket_address", "socketAddress"):
                host, port = str(socket.get("address", "")), socket.get("port_value", socket.get("portValue"))
                if host and port is not None:
                    yield ("", host_and_port(host, int(port))) if _is_ip(host) else (host, str(port))


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


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
        return f"xds:///{listener}"
    authority, _, path = rest.partition("/")
    return f"xds://{authority}/{path.partition('/')[2]}"


def methods(resources: Iterable[Resource]) -> tuple[str, ...]:
    """Return a method for each route, so that the calls use all of them."""
    found: dict[str, None] = {}
    for resource in resources:
        if resource["@type"].endswith(("RouteConfiguration", "listener.v3.Listener")):
            for match in _values(resource, "match"):
                with suppress(ValueError):  # a route that no method can have, as the prefix /a/b/c
                    found[checked_path(_method(match))] = None
    return tuple(found) or (DEFAULT_METHOD,)


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
