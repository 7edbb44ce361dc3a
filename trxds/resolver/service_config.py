"""The service config: options of a target's calls where no control plane has them (A6, A24).

It has gRPC's own JSON form (doc/service_config.md), so that other clients can read the same file. All its problems are
reported at once, each with its place; unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, field

from trxds.core.json_parse import parse_document
from trxds.core.json_reader import JsonNode, Problem, kind_of
from trxds.resources.cookie_affinity import CookieAffinity, find_name_problem, find_path_problem, find_ttl_problem

from .method_config import NO_METHOD_CONFIG, MethodConfig, parse_method_config

MethodName: TypeAlias = tuple[str, str]
"""Service and method; an empty method stands for all methods of the service, an empty service for all services."""

ReadLbPolicy: TypeAlias = Callable[[JsonNode], Any]
"""Read the load balancing policy of a config, from its outermost node; None if the config names none."""

T = TypeVar("T")

_DEFAULT = ("", "")
_MAX_TOKENS = 1000
_SOME_NAME = "session"


class RetryThrottling(Struct, frozen=True):
    """The retry throttle (A6): a failure takes one of `max_tokens`, and each success returns `ratio` of one.

    With half of the tokens or fewer, nothing is retried or hedged.
    """

    max_tokens: float
    ratio: float


class ServiceConfig(Struct, frozen=True):
    """A service config. `lb_policy` is whatever `read_lb_policy` returned, and None if the config names no policy.

    `health_check_service` is the name to ask hosts for (A17), and None if they are not asked. `affinity` is None if
    sessions are not sticky. `max_connections` is how many connections each host may have (A105), and None if the
    config does not say.
    """

    methods: Mapping[MethodName, MethodConfig] = field(default_factory=dict)
    throttling: RetryThrottling | None = None
    lb_policy: Any = None
    health_check_service: str | None = None
    affinity: CookieAffinity | None = None
    max_connections: int | None = None

    def method(self, path: str) -> MethodConfig:
        """Return the most specific entry for `/package.Service/Method`; entries are not merged."""
        service, _, name = path[1:].rpartition("/")
        # doc/service_config.md: method, then service, then the default.
        for key in ((service, name), (service, ""), _DEFAULT):
            found = self.methods.get(key)
            if found is not None:
                return found
        return NO_METHOD_CONFIG


EMPTY_SERVICE_CONFIG = ServiceConfig()


def _ignore_lb_policy(top: JsonNode) -> None:
    """Read no load balancing policy."""


def parse_service_config(
    document: str | Mapping[str, Any], read_lb_policy: ReadLbPolicy = _ignore_lb_policy
) -> ServiceConfig:
    """Return the service config in a JSON text or a mapping of the same shape.

    `read_lb_policy` reads its load balancing policy. `ValueError` lists every problem, each as
    `place: what is wrong; what to write`.
    """
    problems: list[Problem] = []
    top = JsonNode(parse_document(document, "service config") if isinstance(document, str) else document, problems)
    if isinstance(document, str):
        # Only of a text: a mapping has no member twice, and may be of any depth.
        top.report_repeated()
    config = _service_config(top, read_lb_policy)
    if problems:
        raise ValueError("\n".join(f"service config: {problem}" for problem in problems))
    return config


def _service_config(top: JsonNode, read_lb_policy: ReadLbPolicy) -> ServiceConfig:
    if not isinstance(top.value, Mapping):
        top.error(f'is {kind_of(top.value)}; write an object, with "methodConfig" for example')
        return EMPTY_SERVICE_CONFIG
    throttling = top.member("retryThrottling")
    return ServiceConfig(
        _methods(top.member("methodConfig")),
        _throttling(throttling) if throttling.has_object() else None,
        read_lb_policy(top),
        _health_check_service(top.member("healthCheckConfig")),
        _affinity(top.member("statefulSession")),
        _max_connections(top.member("connectionScaling")),
    )


def _health_check_service(node: JsonNode) -> str | None:
    # A17: an empty name is a name, the whole server's; only without one no host is asked.
    if not node.has_object() or node.member("serviceName").value is None:
        return None
    return node.member("serviceName").text()


def _max_connections(node: JsonNode) -> int | None:
    node.object()
    # A105: a uint32 of proto3, in which 0 is the same as unset.
    return node.member("maxConnectionsPerSubchannel").integer(0) or None


def _methods(node: JsonNode) -> dict[MethodName, MethodConfig]:
    methods: dict[MethodName, MethodConfig] = {}
    for item in node.items():
        item.object()
        config = parse_method_config(item)
        # An entry without names applies to no method; it is still validated.
        for name in item.member("name").items():
            key = _name(name)
            # As in grpc-go and the C++ client: neither of the two entries is more specific.
            if key in methods:
                name.error("is in another entry too; write each name once")
            methods.setdefault(key, config)
    return methods


def _name(node: JsonNode) -> MethodName:
    if node.value is None:  # not the default of all methods, as an empty object is
        node.error('is null; write {"service": "pkg.Service"}, or leave it out')
    node.object()
    service, method = node.member("service").text(), node.member("method").text()
    if method and not service:
        node.error("has a method and no service; write both, or neither for the default of all methods")
    return service, method


def _throttling(node: JsonNode) -> RetryThrottling:
    max_tokens, ratio = node.member("maxTokens"), node.member("tokenRatio")
    tokens = max_tokens.number(0.0)
    # A6: an integer in the range (0, 1000].
    if tokens != int(tokens) or not 0 < tokens <= _MAX_TOKENS:
        max_tokens.error(f"must be a whole number, more than 0 and at most {_MAX_TOKENS}")
    # A6: only three decimals count. More than all tokens is all, and the product of a larger number might be infinite.
    # The small term keeps binary rounding from cutting 0.001 to 0.
    returned = int(min(max(ratio.number(0.0), 0.0), _MAX_TOKENS) * 1000 + 1e-6) / 1000
    if returned <= 0:
        ratio.error("must be at least 0.001; write for example 0.1")
    return RetryThrottling(tokens, returned)


def _affinity(node: JsonNode) -> CookieAffinity | None:
    """Read the session affinity of a target without a control plane (A55), None if it is absent.

        "statefulSession": {"cookie": {"name": "session", "path": "/", "ttl": "3600s"}, "strict": false}

    gRPC's document has no such field. The names are those of Envoy's StatefulSession and CookieBasedSessionState, which
    a control plane configures, and of the field into which the C++ client translates them. Problems are noted with
    their places, and defaults replace them.
    """
    if not node.has_object():
        return None
    cookie, strict = node.member("cookie"), node.member("strict").boolean()
    # Not "off", which it would be from a control plane: nobody writes the field for no session.
    if cookie.value is None:
        cookie.error('is missing; write for example {"name": "session", "path": "/", "ttl": "3600s"}')
    if not cookie.has_object():
        return None
    name, path, ttl = cookie.member("name"), cookie.member("path"), cookie.member("ttl")
    # A missing name is a problem of its own; a name of another type is one already.
    written_name = name.text(_SOME_NAME) if name.value is not None else ""
    return CookieAffinity(
        _without_problem(name, written_name, find_name_problem, _SOME_NAME),
        _without_problem(path, path.text("/"), find_path_problem, "/"),
        _without_problem(ttl, ttl.duration(0.0), find_ttl_problem, 0.0) or None,
        strict,
    )


def _without_problem(node: JsonNode, value: T, find_problem: Callable[[T], str], default: T) -> T:
    problem = find_problem(value)
    if problem:
        node.error(problem)
    return default if problem else value
