"""Warnings about a valid bootstrap that hardly says what its author meant.

gRPC ignores fields that it does not know. So a misspelt field is no error: it silently has no effect.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from trxds.core.json_reader import JsonNode, Problem
from trxds.transport.certificates import CertificateFiles, client_context
from trxds.xds.authorization import read_token
from trxds.xds.bootstrap import CACHE, FEATURES, dial_address, is_file, path_of
from trxds.xds.channel_credentials import (
    BUNDLE_MAP_FIELD,
    CHANNEL_TYPES,
    FILE_WATCHER,
    JWT,
    SPIFFE_VARIABLE,
    is_spiffe_enabled,
)
from trxds.xds.resource_files import ResourceFiles
from trxds.xds.resource_names import authority_of

_SERVER_LIST = "xds_servers"
_DEFAULT_TEMPLATE = "client_default_listener_resource_name_template"
_TEMPLATE = "client_listener_resource_name_template"
_TOP_KEYS = (
    _SERVER_LIST,
    "node",
    "certificate_providers",
    "authorities",
    CACHE,
    _DEFAULT_TEMPLATE,
    "server_listener_resource_name_template",
    "allowed_grpc_services",
)
_SERVER_KEYS = ("server_uri", "channel_creds", "call_creds", "server_features")
_NODE_KEYS = ("id", "cluster", "locality", "metadata")
_AUTHORITY_KEYS = (_TEMPLATE, _SERVER_LIST, "fallback_on_reachability_only")
_CERTIFICATE_KEYS = (
    "ca_certificate_file",
    "certificate_file",
    "private_key_file",
    "refresh_interval",
    BUNDLE_MAP_FIELD,
)
_CACHE_KEYS = ("directory", "max_age")


def lint_bootstrap(document: Any) -> list[Problem]:
    """Return the warnings in the order of the document's fields.

    Fields of the wrong type are errors, reported elsewhere.
    """
    found: list[Problem] = []
    top = JsonNode(document, found)
    _unknown_keys(top, _TOP_KEYS)
    _check_servers(top.member(_SERVER_LIST))
    _check_node(top.member("node"))
    _unknown_keys(top.member(CACHE), _CACHE_KEYS)
    for provider in top.member("certificate_providers").members().values():
        _check_provider(provider)
    _check_template(top.member(_DEFAULT_TEMPLATE), top.member("authorities").object())
    for authority in top.member("authorities").members().values():
        _unknown_keys(authority, _AUTHORITY_KEYS)
        _check_template(authority.member(_TEMPLATE), top.member("authorities").object())
        if authority.member(_SERVER_LIST).value == []:
            authority.member(_SERVER_LIST).error("is empty, so the servers at the top are asked")
        _check_servers(authority.member(_SERVER_LIST))
    return found


def _unknown_keys(place: JsonNode, known: Collection[str]) -> None:
    for name in place.object():
        if name not in known:
            place.member(name).error(f"is not known, and has no effect{_suggestion(name, known)}")


def _suggestion(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _check_servers(place: JsonNode) -> None:
    seen: set[str] = set()
    for server in place.items():
        _unknown_keys(server, _SERVER_KEYS)
        _check_features(server.member("server_features"))
        uri = server.member("server_uri")
        if uri.text() in seen:
            uri.error(f"is {uri.text()!r} as before in this list; a second one like it is no fallback")
        seen.add(uri.text())
        if is_file(uri.text()):
            _check_resource_files(server)
            continue
        _check_port(uri)
        _check_plain_text(server)
        _check_credentials(server.member("channel_creds").items())
        for token in server.member("call_creds").items():
            _check_token(token)


def _check_resource_files(server: JsonNode) -> None:
    for name in ("channel_creds", "call_creds"):
        if server.member(name).value is not None:
            server.member(name).error("has no effect: nobody connects to a file")
    uri = server.member("server_uri")
    with suppress(ValueError):  # an error, reported elsewhere
        content = ResourceFiles(path_of(uri.text())).read_if_changed()
        for problem in content.problems if content is not None else ():
            uri.error(f"{problem} (on this machine)")


def _check_credentials(places: list[JsonNode]) -> None:
    some_known = any(place.member("type").text() in CHANNEL_TYPES for place in places)  # otherwise it is an error
    for place in places:
        kind = place.member("type").text()
        if kind == "tls":
            _unknown_keys(place.member("config"), _CERTIFICATE_KEYS)
            _check_files(place.member("config"))
        elif some_known and kind not in CHANNEL_TYPES:
            place.member("type").error(f"is {kind!r}, which this client ignores{_suggestion(kind, CHANNEL_TYPES)}")


def _check_token(place: JsonNode) -> None:
    kind, path = place.member("type").text(), place.member("config").member("jwt_token_file")
    if kind != JWT:
        place.member("type").error(f"is {kind!r}, which this client ignores{_suggestion(kind, [JWT])}")
    elif path.text():
        _check_readable(path, lambda: read_token(path.text()))


def _check_provider(place: JsonNode) -> None:
    kind = place.member("plugin_name").text()
    if kind == FILE_WATCHER:
        _unknown_keys(place.member("config"), _CERTIFICATE_KEYS)
        _check_files(place.member("config"))
    else:
        place.member("plugin_name").error(
            f"is {kind!r}, which this client does not know: clusters that name it are refused"
        )


def _check_files(config: JsonNode) -> None:
    """Warn about unreadable files. This is no error: they may exist only where the client runs."""
    roots, certificate, key = (config.member(name).text() for name in _CERTIFICATE_KEYS[:3])
    bundles = config.member(BUNDLE_MAP_FIELD)
    if bundles.value and not is_spiffe_enabled(os.environ):
        bundles.error(f"has no effect unless the client's environment has {SPIFFE_VARIABLE}=true, and here it has not")
    elif bundles.text():
        _check_readable(bundles, lambda: client_context(CertificateFiles(spiffe_bundle_map=bundles.text())))
    if bool(certificate) == bool(key):
        _check_readable(config, lambda: client_context(CertificateFiles(roots, certificate, key)))


def _check_readable(place: JsonNode, read: Callable[[], object]) -> None:
    try:
        read()
    except OSError as error:
        place.error(f"{error} (on this machine)")


def _check_features(place: JsonNode) -> None:
    for feature in place.items():
        if feature.text() not in ("", *FEATURES):
            feature.error(f"is {feature.text()!r}, which no client knows{_suggestion(feature.text(), FEATURES)}")


def _check_port(uri: JsonNode) -> None:
    try:
        address = dial_address(uri.text())
    except ValueError:
        return  # an error, reported elsewhere
    port = address.rpartition(":")[2]
    if not address.startswith("unix:") and not uri.text().endswith(f":{port}"):
        uri.error(f"is {uri.text()!r} without a port, so it is dialled at {address}; write the port")


def _check_plain_text(server: JsonNode) -> None:
    credentials = server.member("channel_creds").items()
    uri = server.member("server_uri").text()
    if credentials and credentials[0].member("type").value == "insecure" and not _is_local(uri):
        credentials[0].error("is 'insecure': what the control plane says comes as plain text from another machine")


def _is_local(uri: str) -> bool:
    try:
        host = dial_address(uri).rpartition(":")[0].strip("[]")
    except ValueError:
        return True  # an error, reported elsewhere
    if host in {"unix", "localhost"} or uri.startswith("unix:"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_node(place: JsonNode) -> None:
    _unknown_keys(place, _NODE_KEYS)
    _unknown_keys(place.member("locality"), ("region", "zone", "sub_zone"))
    if not place.member("id").text() and place.member("id").value in (None, ""):
        place.member("id").error("is empty; control planes tell their clients apart by it, so write one")


def _check_template(place: JsonNode, authorities: Collection[str]) -> None:
    template = place.text() or "%s"
    if "%s" not in template:
        place.error(f"is {template!r} without %s: every target asks for the same Listener")
    authority = authority_of(template)
    if authority and authority not in authorities:
        place.error(f"names the authority {authority!r}, which is not in authorities; every target will fail")
