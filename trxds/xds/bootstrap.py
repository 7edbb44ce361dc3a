"""The bootstrap names the control planes and identifies the client to them (A27, A47, A53).

Operators write this file by hand or by an injector, and a wrong one stops every channel. So all its problems are
reported at once, each with its field and a remedy. Unknown fields are ignored: other clients read the same file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from trxds.core.authority import percent_encode_authority
from trxds.core.json_parse import parse_document
from trxds.core.json_reader import JsonNode, Problem, kind_of, unicode_problem
from trxds.core.status import BootstrapError
from trxds.resources.endpoint import LocalityId
from trxds.transport.certificates import CertificateFiles
from trxds.transport.transport_credentials import INSECURE

from .channel_credentials import (
    ChannelCredentials,
    JwtTokenFile,
    call_credentials,
    certificate_provider,
    channel_credentials,
)

FILE_VARIABLE = "GRPC_XDS_BOOTSTRAP"
INLINE_VARIABLE = "GRPC_XDS_BOOTSTRAP_CONFIG"

DELTA = "trxds.delta"  # the server feature that selects the incremental protocol variant

CACHE = "trxds.cache"  # the member with the cache on disk; other clients ignore it

FEATURES = (
    "xds_v3",
    "ignore_resource_deletion",
    "trusted_xds_server",
    "fail_on_data_errors",
    "resource_timer_is_transient_error",
    DELTA,
)
"""The supported server features."""

_DEFAULT_PORT = 443  # as in gRPC's DNS resolver


class ServerConfig(Struct, frozen=True):
    """One xDS server: its URI, its credentials, and its server features."""

    uri: str
    credentials: ChannelCredentials = INSECURE
    features: frozenset[str] = frozenset()
    call_credentials: tuple[JwtTokenFile, ...] = ()

    @property
    def address(self) -> str:
        """Return the address to connect to: `host:port` or `unix:/path`."""
        return dial_address(self.uri)

    @property
    def files(self) -> str:
        """Return the path of a file or directory of resources, in place of a server; empty for a server."""
        return path_of(self.uri) if is_file(self.uri) else ""


class Node(Struct, frozen=True):
    """The identity of this client in each discovery stream; `metadata` is sent to the control plane unchanged."""

    id: str = ""
    cluster: str = ""
    locality: LocalityId = LocalityId()
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Authority(Struct, frozen=True):
    """A namespace of resources with its own servers (A47); without servers the top-level ones are used.

    With `fallback_on_reachability_only` the next server is used even if no resource is missing (A95).
    """

    listener_template: str
    servers: tuple[ServerConfig, ...] = ()
    fallback_on_reachability_only: bool = False


class CacheSettings(Struct, frozen=True):
    """The cache of accepted resources on disk. Those that were current longer than `max_age` seconds ago are not used.

    An empty directory means that a program may name one (`cache_dir`), and that there is no cache otherwise.
    """

    directory: str = ""
    max_age: float = 86400.0


class Bootstrap(Struct, frozen=True):
    """A bootstrap that was checked. `listener_template` turns the name of a target into the name of its Listener."""

    servers: tuple[ServerConfig, ...]
    node: Node = Node()
    listener_template: str = "%s"
    authorities: Mapping[str, Authority] = field(default_factory=dict)
    certificate_providers: Mapping[str, CertificateFiles] = field(default_factory=dict)
    """The providers by the name that clusters use for them (A29)."""
    cache: CacheSettings = CacheSettings()


def load(environ: Mapping[str, str]) -> Bootstrap:
    """Return the bootstrap that the environment names. A file goes before inline text, as in every gRPC client.

    `BootstrapError` says that there is none, or what is wrong with it.
    """
    # A27: the file goes first; the inline text is for environments without one.
    if path := environ.get(FILE_VARIABLE):
        if path.lstrip().startswith("{"):  # an error with the path would show it, and it may have secrets
            raise BootstrapError(f"{FILE_VARIABLE} is JSON text, and not a path; put it into {INLINE_VARIABLE}")
        return read(path, source=f"bootstrap file {path} (from {FILE_VARIABLE})")
    if text := environ.get(INLINE_VARIABLE):
        if not text.lstrip().startswith("{"):  # a path, or the quotes of a shell, which others than shells keep
            reason = "is no JSON object, which begins with a brace and has no quotes around it"
            raise BootstrapError(f"{INLINE_VARIABLE} {reason}; put the path of a file into {FILE_VARIABLE}")
        return parse(text, source=INLINE_VARIABLE)
    raise BootstrapError(
        f"no xDS bootstrap: set {FILE_VARIABLE} to the path of a bootstrap file or {INLINE_VARIABLE} to its text, "
        "or pass bootstrap= to open_channel, or --bootstrap to a command"
    )


def read(path: str | Path, source: str | None = None) -> Bootstrap:
    """Return the bootstrap in that file. `BootstrapError` lists every problem."""
    source = source or f"bootstrap file {path}"
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BootstrapError(f"{source}: not UTF-8 text ({error}); write it as JSON in UTF-8") from error
    except OSError as error:
        raise BootstrapError(
            f"{source}: cannot be read: {error.strerror or error}; check path and permissions"
        ) from error
    return parse(text, source=source)


def parse(document: str | Mapping[str, Any], source: str = "bootstrap") -> Bootstrap:
    """Return the bootstrap in a JSON text or a mapping of the same shape.

    `BootstrapError` lists every problem, each as `field: what is wrong; what to write`.
    """
    value = parse_document(document, source, BootstrapError) if isinstance(document, str) else document
    bootstrap, problems = examine(value)
    if problems:
        raise BootstrapError("\n".join(f"{source}: {problem}" for problem in problems))
    return bootstrap


def examine(document: Any) -> tuple[Bootstrap, list[Problem]]:
    """Return the bootstrap as far as it can be read, and all its problems."""
    problems: list[Problem] = []
    return _bootstrap(JsonNode(document, problems)), problems


def dial_address(uri: str) -> str:
    """Return the `host:port` or `unix:/path` of a gRPC target; `ValueError` for one that cannot be connected to."""
    if "\0" in uri:
        raise ValueError(f"{uri!r} has a NUL character; leave it out")
    scheme, colon, rest = uri.partition(":")
    if scheme == "unix" and colon:
        return "unix:" + (rest[2:] if rest.startswith("//") else rest)
    if scheme in {"dns", "ipv4", "ipv6", "passthrough"} and colon:
        # In dns://resolver/name the name is the part after the last slash.
        uri = rest.rpartition("/")[2] if rest.startswith("//") else rest
    elif "://" in uri:
        raise ValueError(f"scheme {scheme!r} is not supported; write host:port")
    return _with_port(uri)


def is_file(uri: str) -> bool:
    """Return whether that is the URI of files with resources, and not of a server."""
    return uri.startswith("file:")


def path_of(uri: str) -> str:
    """Return the path of a `file:` URI; `ValueError` for one that names no absolute path of this machine."""
    parts = urlsplit(uri)
    path = unquote(parts.path)
    if (
        parts.netloc not in ("", "localhost")
        or not path.startswith("/")
        or "\0" in path
        or parts.query
        or parts.fragment
    ):
        raise ValueError(f"{uri!r} is no absolute path; write for example file:///etc/mesh")
    return path


def _with_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        return f"{host}:{_DEFAULT_PORT}"
    if not name:
        name, port = (host, str(_DEFAULT_PORT)) if ":" not in host else ("", port)
    if not name or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{host!r} is no host:port; write for example 10.0.0.5:18000")
    return f"{name}:{port}"


def _bootstrap(top: JsonNode) -> Bootstrap:
    if not isinstance(top.value, Mapping):
        top.error(f'is {kind_of(top.value)}; write an object with "xds_servers" and "node"')
        return Bootstrap(servers=())
    return Bootstrap(
        servers=_servers(top.member("xds_servers")),
        node=_node(top.member("node")),
        listener_template=top.member("client_default_listener_resource_name_template").text() or "%s",
        authorities={name: _authority(name, node) for name, node in top.member("authorities").members().items()},
        certificate_providers=_providers(top.member("certificate_providers")),
        cache=_cache(top.member(CACHE)),
    )


def _servers(node: JsonNode) -> tuple[ServerConfig, ...]:
    example = '[{"server_uri": "host:port", "channel_creds": [{"type": "insecure"}]}]'
    return tuple(_server(item) for item in node.items("needs at least one server", example))


def _server(node: JsonNode) -> ServerConfig:
    node.object()
    features = [item.value for item in node.member("server_features").items()]
    uri = _uri(node.member("server_uri"))
    # Nobody connects to a file, so there is nothing to prove.
    credentials = INSECURE if is_file(uri) else channel_credentials(node.member("channel_creds"))
    return ServerConfig(
        uri=uri,
        credentials=credentials,
        # Unknown features are dropped: servers that differ only in those are equal, and share a stream (A71).
        features=frozenset(f for f in FEATURES if f in features),
        call_credentials=call_credentials(node.member("call_creds"), credentials),
    )


def _uri(node: JsonNode) -> str:
    uri = node.text()
    if node.value is None or node.value == "":
        node.error("is missing; write the control plane's host:port")
    elif uri:
        try:
            path_of(uri) if is_file(uri) else dial_address(uri)
        except ValueError as error:
            node.error(str(error))
    return uri


def _node(node: JsonNode) -> Node:
    node.object()
    locality = node.member("locality")
    locality.object()
    return Node(
        id=node.member("id").text(),
        cluster=node.member("cluster").text(),
        locality=LocalityId(*(locality.member(part).text() for part in ("region", "zone", "sub_zone"))),
        metadata=_metadata(node.member("metadata")),
    )


def _metadata(node: JsonNode) -> Mapping[str, Any]:
    metadata = node.object()
    if metadata:
        from google.protobuf.struct_pb2 import Struct as ProtoStruct  # of no use to a channel without xDS

        # Protobuf has neither all that a mapping of Python may have, nor all numbers and strings of JSON.
        try:
            ProtoStruct().update(metadata)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            node.error(f"cannot be sent ({error}); write strings, 64-bit numbers, lists and objects with string keys")
            return {}
    return metadata


def _providers(node: JsonNode) -> dict[str, CertificateFiles]:
    found = {name: certificate_provider(each) for name, each in node.members().items()}
    return {name: files for name, files in found.items() if files is not None}


def _cache(node: JsonNode) -> CacheSettings:
    node.object()
    place = node.member("directory")
    directory = place.text()
    if directory and (not Path(directory).is_absolute() or "\0" in directory):
        place.error(f"is {directory!r}; write an absolute path")
    return CacheSettings(directory, node.member("max_age").seconds(CacheSettings().max_age))


def _authority(name: str, node: JsonNode) -> Authority:
    node.object()
    if problem := unicode_problem(name):
        node.error(f"the name {problem}")
    # A47: the name is percent-coded, because names of resources are URIs.
    prefix = f"xdstp://{percent_encode_authority(name)}/"
    template = node.member("client_listener_resource_name_template")
    text = template.text() or f"{prefix}envoy.config.listener.v3.Listener/%s"
    # A47: the bootstrap is rejected, where its operator sees it, and not the first channel that uses the authority.
    if not text.startswith(prefix):
        template.error(f"is {text!r}; it must begin with {prefix!r}")
    servers = node.member("xds_servers")
    return Authority(
        listener_template=text,
        servers=_servers(servers) if servers.value not in (None, []) else (),
        fallback_on_reachability_only=node.member("fallback_on_reachability_only").boolean(),
    )
