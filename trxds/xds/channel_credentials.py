"""The bootstrap's credentials for a control plane, and its certificate providers.

These are the fields `channel_creds` (A27, A65), `call_creds` (A97) and `certificate_providers` (A29); clusters refer
to the last by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TypeAlias

from msgspec import Struct

from trxds.core.json_reader import JsonNode
from trxds.transport.certificates import REFRESH_INTERVAL, CertificateFiles
from trxds.transport.connect import Network
from trxds.transport.tls import credentials_network, server_name_of
from trxds.transport.transport_credentials import INSECURE, Insecure, Tls


class GoogleDefault(Struct, frozen=True):
    """TLS, and a token of Google's application default credentials with each stream."""


class JwtTokenFile(Struct, frozen=True):
    """A token in a file that another program keeps current (A97)."""

    path: str


ChannelCredentials: TypeAlias = Insecure | Tls | GoogleDefault


def channel_credentials(node: JsonNode) -> ChannelCredentials:
    """Return the first supported credentials of a list in order of preference. Each supported entry must be valid."""
    kinds: list[str] = []
    usable: list[ChannelCredentials] = []
    for item in node.items("is missing", '[{"type": "insecure"}] or [{"type": "tls"}]'):
        if item.value is not None and not item.has_object():
            continue
        kind = item.member("type").text()
        kinds.append(kind)
        if kind in _supported_types():
            usable.append(CHANNEL_TYPES[kind](item.member("config")))
    if kinds and not usable:
        node.error(_unsupported_message(kinds))
    # INSECURE is never used here: a list without supported credentials is a problem, so the bootstrap is rejected.
    return usable[0] if usable else INSECURE


def _unsupported_message(kinds: list[str]) -> str:
    if "google_default" in kinds:
        return "google_default needs google-auth and requests; install google-auth[requests], or add tls or insecure"
    return f"none of {', '.join(map(repr, kinds))} is supported; add one of {', '.join(_supported_types())}"


def _supported_types() -> list[str]:
    return [kind for kind in CHANNEL_TYPES if kind != "google_default" or _google_auth_is_installed()]


def _google_auth_is_installed() -> bool:
    """Return whether google-auth is installed, and requests, the separate package that it fetches tokens with."""
    try:
        return all(map(find_spec, ("google.auth", "requests")))
    except ModuleNotFoundError:  # the package `google` is missing too
        return False


def secure_network(network: Network, credentials: ChannelCredentials, address: str) -> Network:
    """Return the network that connects to the control plane at that address by these credentials."""
    tls = Tls() if isinstance(credentials, GoogleDefault) else credentials
    return credentials_network(network, tls, server_name_of(address))


def _insecure(config: JsonNode) -> Insecure:
    config.object()
    return INSECURE


def _tls(config: JsonNode) -> Tls:
    # A65: unlike a file_watcher, this may have neither roots nor a certificate; then the system's roots are used.
    return Tls(_files(config))


def _google_default(config: JsonNode) -> GoogleDefault:
    config.object()
    return GoogleDefault()


CHANNEL_TYPES: Mapping[str, Callable[[JsonNode], ChannelCredentials]] = {
    "insecure": _insecure,
    "tls": _tls,
    "google_default": _google_default,
}


def call_credentials(node: JsonNode, channel: ChannelCredentials) -> tuple[JwtTokenFile, ...]:
    """Return all supported call credentials; others are ignored. None may be sent without TLS."""
    # A97: all supported call_creds apply together; of channel_creds only the first one is used.
    known = [item for item in node.items() if item.member("type").text() == JWT]
    if known and isinstance(channel, Insecure):
        node.error("may not be sent without TLS; use tls in channel_creds")
    return tuple(JwtTokenFile(_path(item.member("config").member("jwt_token_file"))) for item in known)


JWT = "jwt_token_file"


def _path(node: JsonNode) -> str:
    if node.value is None or node.value == "":
        node.error("is missing; write the path of the file with the token")
    return _file(node)


_CONTENT = re.compile(r"eyJ[^/\s]*\.[^/\s]*\.|-----BEGIN ")  # how a JWT and a PEM file begin


def _file(node: JsonNode) -> str:
    """Return a path. Content in its place is rejected here, before another error shows it as a path."""
    path = node.text()
    if _CONTENT.match(path.strip()):
        node.error("is the content of a file; write the path of the file")
        return ""
    return path


def certificate_provider(node: JsonNode) -> CertificateFiles | None:
    """Return the provider, or None for an unsupported plugin, which is an error only of clusters that name it (A29)."""
    if node.member("plugin_name").text() != FILE_WATCHER:
        node.object()
        return None
    config = node.member("config")
    files = _files(config)
    if not files.roots and not files.certificate and not files.spiffe_bundle_map:
        config.error("has no certificates; write ca_certificate_file, or certificate_file and private_key_file")
    return files


FILE_WATCHER = "file_watcher"
BUNDLE_MAP_FIELD = "spiffe_trust_bundle_map_file"
SPIFFE_VARIABLE = "GRPC_EXPERIMENTAL_XDS_MTLS_SPIFFE"


def is_spiffe_enabled(environ: Mapping[str, str]) -> bool:
    """Return whether the bootstrap's bundle maps are read (A87)."""
    return environ.get(SPIFFE_VARIABLE, "").lower() == "true"


def _files(config: JsonNode) -> CertificateFiles:
    config.object()
    certificate, key = config.member("certificate_file"), config.member("private_key_file")
    for here, other in ((certificate, key), (key, certificate)):
        if not here.value and other.value:
            here.error(f"is missing; {other.steps[-1]} is set, and each needs the other")
    return CertificateFiles(
        _file(config.member("ca_certificate_file")),
        _file(certificate),
        _file(key),
        config.member("refresh_interval").seconds(REFRESH_INTERVAL),
        # A87: without the switch the field is not even read.
        _file(config.member(BUNDLE_MAP_FIELD)) if is_spiffe_enabled(os.environ) else "",
    )
