"""RouteConfiguration: virtual hosts with their routes (RDS; A28, A31, A60)."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, structs

from .cooperative_parse import Slices, TimeSlice
from .extension import extension
from .filter_config import FilterConfig
from .filters import parse_filter_overrides
from .request_mirror import parse_mirror_policies
from .retry_policy import parse_retry_policy
from .route_action import Inherited, RouteAction, parse_route_action
from .route_match import RouteMatch, parse_route_match
from .validation_errors import ValidationErrors

if TYPE_CHECKING:
    from .context import ParseContext


class Route(Struct, frozen=True, gc=False):
    """A route. `action` is None if gRPC does not support it (a redirect, say): RPCs that match fail UNAVAILABLE."""

    match: RouteMatch
    action: RouteAction | None
    filter_overrides: Mapping[str, FilterConfig] = field(default_factory=dict)


class VirtualHost(Struct, frozen=True, gc=False):
    """The routes for some domains, in order; the first that matches wins."""

    name: str
    domains: tuple[str, ...]
    routes: tuple[Route, ...] = ()
    filter_overrides: Mapping[str, FilterConfig] = field(default_factory=dict)

    @property
    def clusters(self) -> frozenset[str]:
        """Return every cluster that a route names."""
        actions = (route.action for route in self.routes if route.action is not None)
        return frozenset(cluster.name for action in actions for cluster in action.clusters)

    @property
    def mirror_clusters(self) -> frozenset[str]:
        """Return every cluster that a route's RPCs are copied to."""
        actions = (route.action for route in self.routes if route.action is not None)
        return frozenset(each.cluster for action in actions for each in action.mirrors if each.cluster)


class DomainKind(enum.IntEnum):
    """The kinds of domain patterns, the preferred first (A28; the rules are Envoy's)."""

    EXACT = 0
    SUFFIX = 1
    PREFIX = 2
    UNIVERSAL = 3


class RouteConfig(Struct, frozen=True):
    """The virtual hosts of one RouteConfiguration."""

    name: str
    virtual_hosts: tuple[VirtualHost, ...] = ()

    def __repr__(self) -> str:
        routes = sum(len(host.routes) for host in self.virtual_hosts)
        return f"<RouteConfig {self.name}: {len(self.virtual_hosts)} virtual hosts, {routes} routes>"


# -- domains


def domain_kind(domain: str) -> DomainKind | None:
    """Return the kind; None for what is no domain pattern: an empty text, or a star in the middle."""
    if domain == "*":
        return DomainKind.UNIVERSAL
    if domain.startswith("*"):
        return DomainKind.SUFFIX  # also "*a*", which then matches no host
    if domain.endswith("*"):
        return DomainKind.PREFIX
    return DomainKind.EXACT if domain and "*" not in domain else None


def domain_matches(domain: str, authority: str) -> bool:
    """Return whether the pattern matches. Case does not matter; a star stands for at least one character."""
    # RFC 4343: host names ignore case, and so does the C++ client; grpc-go compares them as written.
    domain, authority = domain.lower(), authority.lower()
    match domain_kind(domain):
        case DomainKind.EXACT:
            return authority == domain
        case DomainKind.SUFFIX:
            return len(authority) >= len(domain) and authority.endswith(domain[1:])
        case DomainKind.PREFIX:
            return len(authority) >= len(domain) and authority.startswith(domain[:-1])
        case DomainKind.UNIVERSAL:
            return True
        case None:
            return False


def find_virtual_host(virtual_hosts: Sequence[VirtualHost], authority: str) -> VirtualHost | None:
    """Return the virtual host for that authority; None if no domain matches it.

    An exact domain goes before a suffix `*.example.com`, that before a prefix `example.*`, and `*` is last. Within a
    kind the longest domain wins, and of equals the first.
    """
    # A28: the domain that "most specifically matches" wins.
    matching = [
        (kind, -len(domain), index)
        for index, virtual_host in enumerate(virtual_hosts)
        for domain in virtual_host.domains
        if (kind := domain_kind(domain)) is not None and domain_matches(domain, authority)
    ]
    return virtual_hosts[min(matching)[2]] if matching else None


# -- parsing


def parse_route_config(message: Any, context: ParseContext, problems: ValidationErrors) -> Slices[RouteConfig]:
    mirrors = parse_mirror_policies(message.request_mirror_policies, (), context, problems)
    outer = Inherited(context, None, mirrors, _optional_plugins(message.cluster_specifier_plugins, problems))
    time_slice = TimeSlice()
    virtual_hosts: list[VirtualHost] = []
    for index, each in enumerate(message.virtual_hosts):
        virtual_host = yield from _virtual_host(each, outer, time_slice, problems.at(f"virtual_hosts[{index}]"))
        virtual_hosts.append(virtual_host)
        if time_slice.is_used_up():
            yield
    return RouteConfig(message.name, tuple(virtual_hosts))


def _virtual_host(
    message: Any, outer: Inherited, time_slice: TimeSlice, problems: ValidationErrors
) -> Slices[VirtualHost]:
    # All problems are gathered, so that one NACK names them all.
    _check_domains(message.domains, problems)
    overrides = parse_filter_overrides(message.typed_per_filter_config, outer.context.http_filters, problems)
    inherited = structs.replace(
        outer,
        retry_policy=parse_retry_policy(message, problems, outer.context.experiments.per_try_timeout),
        mirrors=parse_mirror_policies(message.request_mirror_policies, outer.mirrors, outer.context, problems),
    )
    routes: list[Route] = []
    # A time slice and not one yield for each: ten thousand small routes would be as many steps.
    for index, each in enumerate(message.routes):
        route = _route(each, inherited, problems.at(f"routes[{index}]"))
        if route is not None:
            routes.append(route)
        if time_slice.is_used_up():
            yield
    return VirtualHost(message.name, tuple(message.domains), tuple(routes), overrides)


def _check_domains(domains: Iterable[str], problems: ValidationErrors) -> None:
    if not domains:
        problems.at("domains").add("must be non-empty")
    for index, domain in enumerate(domains):
        if domain_kind(domain) is None:
            problems.at(f"domains[{index}]").add(f'invalid domain pattern "{domain}"')


def _route(message: Any, inherited: Inherited, problems: ValidationErrors) -> Route | None:
    """Return the route; None if gRPC skips it, or if it has a problem."""
    match = parse_route_match(message, problems)
    if match is None:
        return None
    action = None
    # A28: a route with another action stays, and its RPCs fail: without it they would match a later route.
    if message.HasField("route"):
        action = parse_route_action(message.route, inherited, problems.at("route"))
        # A28: a route without a supported cluster specifier is skipped, and the next one may match.
        if action is None:
            return None
    overrides = parse_filter_overrides(message.typed_per_filter_config, inherited.context.http_filters, problems)
    return Route(match, action, overrides)


def _optional_plugins(messages: Iterable[Any], problems: ValidationErrors) -> frozenset[str]:
    """Return the optional cluster specifier plugins.

    None is supported, so their routes are skipped, and others are problems.
    """
    names: set[str] = set()
    for index, message in enumerate(messages):
        plugin = problems.at(f"cluster_specifier_plugins[{index}]")
        if not plugin.has_field(message, "extension"):
            continue
        name, at = message.extension.name, plugin.at("extension")
        if name in names:
            at.at("name").add(f'duplicate name "{name}"')
        names.add(name)
        config = extension(message.extension, "typed_config", at)
        if config is not None and not message.is_optional:
            config.problems.add("unsupported ClusterSpecifierPlugin type")
    return frozenset(names)
