"""Bytes from a control plane, and texts from files, flags and cookies."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from tempfile import NamedTemporaryFile

from google.protobuf.descriptor_pb2 import FileOptions
from google.protobuf.message import DecodeError

from trxds.client.custom_filter import FilterType, filter_types
from trxds.client.fault_injection_filter import decide
from trxds.client.retry import pushback
from trxds.core.metadata import Metadata, is_value
from trxds.core.status import BootstrapError
from trxds.lb.balancing_config import make_parser, make_struct_policies
from trxds.resolver.request_hash import request_hash
from trxds.resolver.service_config import parse_service_config
from trxds.resolver.target_uri import canonical as canonical_target
from trxds.resolver.target_uri import parse_custom_target, parse_non_xds_target
from trxds.resources.context import ParseContext
from trxds.resources.cooperative_parse import run_at_once
from trxds.resources.experiments import Experiments
from trxds.resources.fault import Abort, Delay, FaultConfig, FractionalPercent
from trxds.resources.hash_policy import HeaderHash
from trxds.resources.lb_policy import parse_custom_policy
from trxds.resources.load_stats import MIN_INTERVAL, parse_lrs_response
from trxds.resources.protos import AnyProto, DeltaDiscoveryResponse, DiscoveryResponse, LoadStatsResponse, from_json
from trxds.resources.regex import Regex, Rewrite
from trxds.resources.stateful_session import CookieConfig, HeaderConfig
from trxds.resources.types import RESOURCE_TYPES, ResourceType
from trxds.session_affinity import cookie
from trxds.session_affinity.cookie_jar import CookieJar, parse_set_cookie
from trxds.session_affinity.session_state import make_carrier
from trxds.session_affinity.session_token import (
    MAX_TOKEN_SIZE,
    SessionToken,
    TokenCookie,
    decode_token,
    encode_token,
    portable,
)
from trxds.testing import resources as xds
from trxds.xds import bootstrap
from trxds.xds.authorization import read_token
from trxds.xds.bootstrap import Bootstrap, ServerConfig
from trxds.xds.delta import DeltaProtocol
from trxds.xds.resource_names import authority_of, canonical, check_type, parse_target
from trxds.xds.sotw import SotwProtocol

from .resource_seeds import SEEDS
from .target import Target

BOOTSTRAP = Bootstrap((ServerConfig("plane:1"),), listener_template="xdstp://fleet/%s")


EXPERIMENTS = Experiments(
    slow_start=True, custom_metrics=True, http_connect=True, connection_scaling=True, authority_rewrite=True
)

CONTEXT = ParseContext(
    http_filters=filter_types(
        {
            "test.Filter": FilterType(lambda settings, context: None),
            "google.protobuf.FileOptions": FilterType(lambda settings, context: None, message=FileOptions),
        }
    ),
    certificate_providers=frozenset({"mesh"}),
    struct_policies={**make_struct_policies(EXPERIMENTS), "test.Custom": partial(parse_custom_policy, dict)},
    experiments=EXPERIMENTS,
    server_features=frozenset({"trusted_xds_server"}),
)


# -- resources


def _resource(type: ResourceType) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        resource = AnyProto(type_url=type.type_url, value=data)
        parsed = type.read(resource, CONTEXT)
        assert (parsed.value is None) is bool(parsed.errors)
        assert type.read(resource, CONTEXT) == parsed, "the same bytes mean the same"

    return run


def _discovery(data: bytes) -> None:
    """A whole response, of both protocols."""
    for message, read in ((DiscoveryResponse, SotwProtocol.read), (DeltaDiscoveryResponse, DeltaProtocol.read)):
        try:
            received = message.FromString(data)
        except DecodeError:
            continue  # gRPC ends the stream for it
        type = RESOURCE_TYPES.get(received.type_url)
        if type is not None:
            reading = run_at_once(read(received, type, {}, CONTEXT))
            named = [item.parsed.name for item in reading.items if item.parsed.name is not None]
            assert len(named) == len(set(named))


def _responses() -> list[bytes]:
    return [
        DiscoveryResponse(
            type_url=type.type_url,
            version_info="1",
            nonce="n",
            resources=map(from_json, seeds),
        ).SerializeToString()
        for type, seeds in SEEDS.items()
    ]


# -- texts


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _bootstrap(data: bytes) -> None:
    try:
        bootstrap.parse(_text(data))
    except BootstrapError as error:
        assert str(error)


def _service_config(data: bytes) -> None:
    try:
        config = parse_service_config(_text(data), make_parser({"test.Custom": dict}, EXPERIMENTS))
    except ValueError as error:
        assert str(error)
    else:
        config.method("/shop.Cart/Add")


def _names(data: bytes) -> None:
    text = _text(data)
    assert canonical(canonical(text)) == canonical(text)
    assert authority_of(canonical(text)) == authority_of(text)
    check_type(text, "envoy.config.cluster.v3.Cluster")
    try:
        target = parse_target(text, BOOTSTRAP)
    except (ValueError, BootstrapError):
        return
    assert target.listener.startswith("xdstp://fleet/")


def _plain_target(data: bytes) -> None:
    text = _text(data)
    try:
        target = parse_non_xds_target(text)
    except ValueError as error:
        assert repr(text) in str(error)
    else:
        assert target is None or parse_non_xds_target(canonical_target(text)) is not None
    with suppress(ValueError):
        custom = parse_custom_target(text, {"my"})
        assert custom is None or custom.scheme == "my"


def _load_order(data: bytes) -> None:
    """What a load reporting server asks for."""
    try:
        message = LoadStatsResponse.FromString(data)
    except DecodeError:
        return
    order = parse_lrs_response(message)
    assert order.interval >= MIN_INTERVAL and isinstance(order.wants("c"), bool)


def _token(data: bytes) -> None:
    with NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        try:
            assert read_token(file.name).isascii()
        except OSError as error:
            assert file.name in str(error)


def _metadata(data: bytes) -> None:
    """What filters, hashes and retries read of a call's headers and trailers, one to a line."""
    lines = (line.partition("=") for line in data.decode("latin-1").split("\n"))
    metadata = Metadata((name.lower(), value) for name, _, value in lines)
    for state in (CookieConfig("session"), HeaderConfig("x-session")):
        text = make_carrier(state).read(metadata)
        assert text is None or isinstance(cookie.decode(text), cookie.SessionCookie | None)
    injection = decide(BY_HEADER, metadata, Random(1))
    assert 0 <= injection.delay < math.inf
    asked = pushback(metadata)
    assert asked is None or asked >= 0
    hashed = request_hash(BY_USER, metadata, 1)
    assert hashed is None or 0 <= hashed < 2**64


BY_HEADER = FaultConfig(
    Delay(by_header=True, share=FractionalPercent(50)), Abort(by_header=True, share=FractionalPercent(50))
)


BY_USER = [HeaderHash("user", Rewrite(Regex("(a*)(.*)"), "\\2-\\1"))]


def _a_load_order() -> bytes:
    order = LoadStatsResponse(clusters=["c"])
    order.load_reporting_interval.FromSeconds(10)
    return bytes(order.SerializeToString())


def _a_token() -> bytes:
    return b".".join(base64.urlsafe_b64encode(part) for part in (b"{}", b'{"exp": 1900000000}', b"signature"))


def _cookie(data: bytes) -> None:
    """As it is read, and as we would write it for these hosts."""
    said = cookie.decode(data.decode("latin-1"))
    assert said is None or len(data) <= cookie.MAX_SIZE
    addresses, _, cluster = _text(data).partition(";")
    addresses = cookie.limit_addresses(addresses)
    text = cookie.encode(addresses, cluster)
    if cookie.SessionCookie(addresses).is_list_of_hosts and len(text) <= cookie.MAX_SIZE:
        again = cookie.decode(text)
        assert again is not None and (again.addresses, again.clusters[0]) == (addresses, cluster)
        assert again.expires == math.inf


def _jar(data: bytes) -> None:
    jar = CookieJar()
    for number, line in enumerate(data.decode("latin-1").split("\n")):
        received = parse_set_cookie(line, 1.7e9)
        if received is not None:
            jar.store(received, float(number))
    assert is_value(jar.header("/shop.Cart/Add", 5.0)), "a request can carry it"


def _a_session_token() -> SessionToken:
    value = cookie.encode("10.0.0.1:80", "cart")
    return SessionToken("xds:///shop", (TokenCookie("session", "/", value, 1.8e9),), (("x-session", value),))


def _payload(token: SessionToken) -> bytes:
    text = encode_token(token).partition(".")[2]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _session_token(data: bytes) -> None:
    """As the text of a token, and as the content of one: it is what `export` could have made, or the one error."""
    content = f"trxds1.{base64.urlsafe_b64encode(data).decode().rstrip('=')}"
    for text in (data.decode("latin-1"), content):
        for keys in ((), (b"k" * 16,)):
            found = decode_token(text, "xds:///shop", keys)
            # A long one may be longer in our own form, and then too long.
            if isinstance(found, SessionToken) and len(text) < MAX_TOKEN_SIZE // 2:
                assert portable(found) == found and decode_token(encode_token(found), found.target) == found


def _a_bootstrap() -> bytes:
    plane = xds.bootstrap("10.0.0.5:18000", "10.0.0.6:18000")
    files = {"certificate_file": "c.pem", "private_key_file": "k.pem", "ca_certificate_file": "r.pem"}
    plane["xds_servers"][0] |= {
        "channel_creds": [{"type": "google_default"}, {"type": "tls", "config": {**files, "refresh_interval": "10s"}}],
        "call_creds": [{"type": "jwt_token_file", "config": {"jwt_token_file": "token"}}],
    }
    plane["node"] |= {"cluster": "shop", "locality": {"zone": "a"}, "metadata": {"team": "cart"}}
    plane["certificate_providers"] = {"mesh": {"plugin_name": "file_watcher", "config": files}}
    plane["authorities"] = {"fleet": {"client_listener_resource_name_template": "xdstp://fleet/envoy.L/%s"}}
    plane["client_default_listener_resource_name_template"] = "%s"
    return json.dumps(plane).encode()


_RETRY = {
    "maxAttempts": 3,
    "initialBackoff": "0.1s",
    "maxBackoff": "1s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE", 14],
}
_HEDGING = {"maxAttempts": 3, "hedgingDelay": "0.5s", "nonFatalStatusCodes": ["INTERNAL"]}
_METHODS = [
    {"name": [{"service": "shop.Cart", "method": "Add"}], "timeout": "1.5s", "retryPolicy": _RETRY},
    {"name": [{"service": "shop.Cart"}], "waitForReady": True, "hedgingPolicy": _HEDGING},
    {"name": [{}], "maxRequestMessageBytes": 1000, "maxResponseMessageBytes": "1000"},
]
_BALANCING: list[dict[str, object]] = [
    {"round_robin": {}},
    {"pick_first": {"shuffleAddressList": True}},
    {"ring_hash_experimental": {"minRingSize": 10, "maxRingSize": 100, "requestHashHeader": "user"}},
    {"least_request_experimental": {"choiceCount": 3}},
    {
        "weighted_round_robin": {
            "blackoutPeriod": "1s",
            "errorUtilizationPenalty": 1.5,
            "metricNamesForComputingUtilization": ["mem_utilization"],
            "slowStartConfig": {"slowStartWindow": "30s", "aggression": 2, "minWeightPercent": 20},
        }
    },
    {"random_subsetting_experimental": {"subsetSize": 3, "childPolicy": [{"round_robin": {}}]}},
    {
        "outlier_detection_experimental": {
            "successRateEjection": {"minimumHosts": 3},
            "failurePercentageEjection": {"threshold": 50},
            "childPolicy": [{"round_robin": {}}],
        }
    },
]


def _service_configs() -> list[bytes]:
    throttling = {"maxTokens": 10, "tokenRatio": 0.1}
    methods = {"methodConfig": _METHODS, "healthCheckConfig": {"serviceName": "shop"}, "retryThrottling": throttling}
    return [
        json.dumps({**methods, "loadBalancingConfig": [policy]}).encode()
        for policy in (*_BALANCING, {"test.Custom": {"a": 1}})
    ]


_SOME_NAMES = [b"xds:///shop", b"xds://fleet/shop", b"xdstp://a/envoy.config.cluster.v3.Cluster/c?b=1&a=2#f"]
_SOME_COOKIES = [b"MTAuMC4wLjE6NDQzO3Nob3A=", b"CgsxMC4wLjAuMTo4MBAF", b"10.0.0.1:443,[::1]:80;shop"]
_SOME_PLAIN_TARGETS = [
    b"dns:///shop.example:443",
    b"dns://8.8.8.8/shop.example",
    b"my:///shop",
    b"shop:80",
    b"ipv4:10.0.0.1:443,10.0.0.2",
    b"ipv6:[::1]:443",
    b"unix:/run/shop",
    b"unix-abstract:shop",
]
_SOME_METADATA = (
    b"cookie=a=b; session=MTAuMC4wLjE6NDQzO3Nob3A=\nx-session=MTAuMC4wLjE6NDQz\nuser=anna\n"
    b"x-envoy-fault-delay-request=100\nx-envoy-fault-delay-request-percentage=7\n"
    b"x-envoy-fault-abort-grpc-request=14\nx-envoy-fault-abort-percentage=7\ngrpc-retry-pushback-ms=100"
)
_SET_COOKIES = b"session=abc; Path=/shop; Max-Age=60; HttpOnly\nsession=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"

TARGETS = [
    *(
        Target(f"resource_{type.kind.lower()}", _resource(type), [from_json(each).value for each in seeds])
        for type, seeds in SEEDS.items()
    ),
    Target("discovery", _discovery, _responses()),
    Target("bootstrap", _bootstrap, [_a_bootstrap()]),
    Target("service_config", _service_config, _service_configs()),
    Target("names", _names, _SOME_NAMES),
    Target("plain_target", _plain_target, _SOME_PLAIN_TARGETS),
    Target("load_order", _load_order, [_a_load_order()]),
    Target("token", _token, [_a_token()]),
    Target("metadata", _metadata, [_SOME_METADATA]),
    Target("cookie", _cookie, _SOME_COOKIES),
    Target("jar", _jar, [_SET_COOKIES]),
    Target("session_token", _session_token, [_payload(_a_session_token())]),
]
