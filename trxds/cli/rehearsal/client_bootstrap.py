"""The bootstrap of the clients of a rehearsal, and the targets that lead to the listeners of the files by it.

Without a file it is made of what the resources name. Of a file, the parts count that matter without a network: which
Listener a target names (A47), the names of certificate providers, without which a client refuses a cluster (A29), and
the servers' features.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from trxds.core.authority import percent_encode_authority
from trxds.core.plural import plural
from trxds.core.status import BootstrapError
from trxds.testing.resources import Resource as Document
from trxds.testing.resources import bootstrap as document_of
from trxds.testing.simulation.simulation import PLANE_ADDRESS
from trxds.transport.transport_credentials import INSECURE
from trxds.xds.bootstrap import DELTA, Bootstrap, ServerConfig
from trxds.xds.resource_names import authority_of, canonical, parse_target

from .mesh_of_files import texts, values
from .plan import Resource

_TEMPLATE = "client_default_listener_resource_name_template"
_AUTHORITY_TEMPLATE = "client_listener_resource_name_template"

# Hosts of a rehearsal have no certificates and are called without TLS, so nothing is read from the files.
_PROVIDER = {"plugin_name": "file_watcher", "config": {"ca_certificate_file": "/rehearsal/ca.pem"}}


def from_resources(resources: Iterable[Resource], *, delta: bool) -> Document:
    """Return a bootstrap that knows the authorities and certificate providers that the resources name."""
    made = document_of(PLANE_ADDRESS, features=("xds_v3", *([DELTA] if delta else [])))
    listed = list(resources)
    named = {authority for name in texts(listed) if (authority := authority_of(name)) is not None}
    made["authorities"] = {each: {} for each in sorted(named)}
    providers = {str(each) for resource in listed for each in values(resource, "instance_name", "instanceName")}
    made["certificate_providers"] = dict.fromkeys(sorted(providers), _PROVIDER)
    return made


def from_file(given: Bootstrap, *, delta: bool) -> Document:
    """Return the bootstrap of a file with the rehearsal's control plane in place of its servers."""
    node = msgspec.to_builtins(given.node)
    return {
        "xds_servers": _servers(given.servers, delta),
        "node": node,
        _TEMPLATE: given.listener_template,
        "authorities": {
            name: {
                _AUTHORITY_TEMPLATE: each.listener_template,
                "xds_servers": _servers(each.servers, delta),
            }
            for name, each in given.authorities.items()
        },
        "certificate_providers": dict.fromkeys(given.certificate_providers, _PROVIDER),
    }


def _servers(servers: tuple[ServerConfig, ...], delta: bool) -> list[Document]:
    # The first one is reached, so nobody falls back to the next (A71).
    return [
        {
            "server_uri": PLANE_ADDRESS,
            "channel_creds": [{"type": "insecure"}],
            "server_features": sorted(each.features | ({DELTA} if delta else set())),
        }
        for each in servers[:1]
    ]


def of_client(document: Mapping[str, Any], node: str) -> Document:
    """Return the bootstrap of one client: each has a node id of its own, as each process has."""
    return {**document, "node": {**document["node"], "id": node}}


def unused_parts(given: Bootstrap) -> str:
    """Return which parts of a bootstrap a rehearsal does not use."""
    servers = [*given.servers, *(server for each in given.authorities.values() for server in each.servers)]
    parts = [
        "the node's id (each client has its own)",
        *(["the servers' credentials"] if any(each.credentials != INSECURE for each in servers) else []),
        *(["their call credentials"] if any(each.call_credentials for each in servers) else []),
        *(["the files of certificate providers"] if given.certificate_providers else []),
        *(["the cache on disk"] if given.cache.directory else []),
    ]
    more = f" and {plural(len(servers) - 1, 'more server')}" if len(servers) > 1 else ""
    where = f"the simulated control plane is in place of {servers[0].uri}{more}"
    return f"{where}; not used either: {', '.join(parts)}"


# -- targets


def targets(resources: Iterable[Resource], known: Bootstrap) -> tuple[dict[str, str], list[str]]:
    """Return the listeners of clients by the targets that name them, and those that no target names."""
    found: dict[str, str] = {}
    nameless = []
    for each in resources:
        if each["@type"].endswith("listener.v3.Listener") and ("api_listener" in each or "apiListener" in each):
            listener = str(each["name"])
            if (target := next(_targets_of(listener, known), None)) is None:
                nameless.append(listener)
            else:
                found.setdefault(target, listener)
    return found, nameless


def _targets_of(listener: str, known: Bootstrap) -> Iterator[str]:
    """Yield the targets that name a listener, those of the template with the most text of its own first."""
    templates = [("", known.listener_template)]
    templates += [(authority, each.listener_template) for authority, each in known.authorities.items()]
    templates.sort(key=lambda each: -len(each[1].replace("%s", "")))
    wanted = canonical(listener)
    for authority, template in templates:
        if (name := _name_in(canonical(template), wanted)) is None:
            continue
        # A target is a URI, which is decoded (A47).
        target = f"xds://{percent_encode_authority(authority)}/{_escaped(name)}"
        try:
            if canonical(parse_target(target, known).listener) == wanted:
                yield target
        except (ValueError, BootstrapError):  # as of a name that ends in a slash
            continue


def _name_in(template: str, listener: str) -> str | None:
    """Return the name that the template makes this listener of; None if it makes it of none, or of any."""
    first, *rest = (re.escape(part) for part in template.split("%s"))
    if not rest:
        return None
    pattern = f"{first}(?P<name>.+){'(?P=name)'.join(rest)}"
    match = re.fullmatch(pattern, listener, re.DOTALL)
    if match is None:
        return None
    return unquote(match["name"]) if template.startswith("xdstp:") else match["name"]


def _escaped(text: str) -> str:
    """Return the text as the path of a URI, changed only where it would mean something else."""
    return text.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
