"""Bytes from a control plane, and texts from files, flags and cookies."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

from google.protobuf.message import DecodeError

from trxds.ads import bootstrap, response
from trxds.ads.bootstrap import Bootstrap, ServerConfig
from trxds.ads.delta import Delta
from trxds.ads.names import authority_of, canonical, check_type, parse_target
from trxds.affinity import cookie
from trxds.affinity.jar import CookieJar
from trxds.config.service_config import parse_service_config
from trxds.ground.status import BootstrapError
from trxds.resources.context import ParseContext
from trxds.resources.protos import DeltaDiscoveryResponse, DiscoveryResponse, from_json
from trxds.resources.slices import at_once
from trxds.resources.types import CDS, EDS, LDS, RDS, ResourceType
from trxds.testing import resources as xds

from .target import Target

BOOTSTRAP = Bootstrap((ServerConfig("plane:1"),), listener_template="xdstp://fleet/%s")


# -- resources

SEEDS = {
    LDS: [xds.listener("shop", routes="r", filters=[xds.stateful_session()])],
    RDS: [xds.routes("r", xds.route({"a": 1, "b": 2}, prefix="/s/"), xds.route("c"))],
    CDS: [xds.cluster("c"), xds.aggregate("both", "a", "b"), xds.logical_dns("d", "cart.example", 443)],
    EDS: [xds.endpoints("c", xds.locality("10.0.0.1:443", "[::1]:443"))],
}


def _resource(type: ResourceType) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        parsed = type.parse(data, ParseContext())
        assert (parsed.value is None) is bool(parsed.errors)
        assert type.parse(data, ParseContext()) == parsed, "the same bytes mean the same"

    return run


def _discovery(data: bytes) -> None:
    """A whole response, of both protocols."""
    for message, read in ((DiscoveryResponse, response.read), (DeltaDiscoveryResponse, Delta().read)):
        try:
            received = message.FromString(data)
        except DecodeError:
            continue  # gRPC ends the stream for it
        type = response.known_type(received)
        if type is not None:
            reading = at_once(read(received, type, {}, ParseContext()))
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
        config = parse_service_config(_text(data))
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


def _cookie(data: bytes) -> None:
    """As it is read, and as we would write it for these hosts."""
    said = cookie.decode(data.decode("latin-1"))
    assert said is None or isinstance(cookie.names_hosts(said.addresses), bool)
    addresses, _, cluster = _text(data).partition(";")
    if cookie.names_hosts(addresses):
        again = cookie.decode(cookie.encode(addresses, cluster))
        assert again is not None and again.addresses == addresses and again.expires == math.inf


def _jar(data: bytes) -> None:
    jar = CookieJar()
    for number, line in enumerate(data.decode("latin-1").split("\n")):
        jar.take(line, float(number))
    assert isinstance(jar.header("/shop.Cart/Add", 5.0), str)


def _a_bootstrap() -> bytes:
    return json.dumps(xds.bootstrap("10.0.0.5:18000")).encode()


def _a_service_config() -> bytes:
    retry = {
        "maxAttempts": 3,
        "initialBackoff": "0.1s",
        "maxBackoff": "1s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    methods = [{"name": [{"service": "shop.Cart", "method": "Add"}], "timeout": "1.5s", "retryPolicy": retry}]
    throttling = {"maxTokens": 10, "tokenRatio": 0.1}
    balancing = [{"round_robin": {}}]
    return json.dumps(
        {"methodConfig": methods, "retryThrottling": throttling, "loadBalancingConfig": balancing}
    ).encode()


_SOME_NAMES = [b"xds:///shop", b"xds://fleet/shop", b"xdstp://a/envoy.config.cluster.v3.Cluster/c?b=1&a=2#f"]
_SOME_COOKIES = [b"MTAuMC4wLjE6NDQzO3Nob3A=", b"CgsxMC4wLjAuMTo4MBAF", b"10.0.0.1:443,[::1]:80;shop"]
_SET_COOKIES = b"session=abc; Path=/shop; Max-Age=60; HttpOnly\nsession=; Max-Age=0"

TARGETS = [
    *(
        Target(
            f"resource_{type.kind.lower()}",
            _resource(type),
            [from_json(each).value for each in seeds],
            ("trxds.resources",),
        )
        for type, seeds in SEEDS.items()
    ),
    Target("discovery", _discovery, _responses(), ("trxds.ads", "trxds.resources")),
    Target("bootstrap", _bootstrap, [_a_bootstrap()], ("trxds.ads.bootstrap", "trxds.ground")),
    Target("service_config", _service_config, [_a_service_config()], ("trxds.config", "trxds.ground")),
    Target("names", _names, _SOME_NAMES, ("trxds.ads.names", "urllib")),
    Target("cookie", _cookie, _SOME_COOKIES, ("trxds.affinity.cookie", "trxds.resources.address")),
    Target("jar", _jar, [_SET_COOKIES], ("trxds.affinity",)),
]
