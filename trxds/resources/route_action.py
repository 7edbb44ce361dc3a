"""The action of a route: clusters, time limits, hash policies and retry policy (A28, A31, A42, A44)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from .filter_config import FilterConfig
from .filters import parse_filter_overrides
from .hash_policy import HashPolicy, parse_hash_policies
from .request_mirror import MirrorPolicies, parse_mirror_policies
from .retry_policy import RetryPolicy, parse_retry_policy
from .units import UINT32_MAX, parse_duration, parse_optional_duration
from .validation_errors import ValidationErrors

if TYPE_CHECKING:
    from .context import ParseContext


class WeightedCluster(Struct, frozen=True, gc=False):
    """A cluster and its weight among the RPCs of a route, which is never 0."""

    name: str
    weight: int = 1
    filter_overrides: Mapping[str, FilterConfig] = field(default_factory=dict)


class RouteAction(Struct, frozen=True, gc=False):
    """The action of a route. One cluster is one entry of weight 1. Times are in seconds; None is unset, 0 is no limit.

    `timeout` and `max_grpc_timeout` are those of A31's first draft, for channels that ask for it. With
    `auto_host_rewrite` the `:authority` of an RPC is the host name of its endpoint, if that has one (A81).
    `mirrors` copy its RPCs.
    """

    clusters: tuple[WeightedCluster, ...]
    grpc_timeout_header_max: float | None = None
    max_stream_duration: float | None = None
    timeout: float | None = None
    max_grpc_timeout: float | None = None
    hash_policies: tuple[HashPolicy, ...] = ()
    retry_policy: RetryPolicy | None = None
    auto_host_rewrite: bool = False
    mirrors: MirrorPolicies = ()


class Inherited(Struct, frozen=True):
    """The settings that a virtual host's routes get from outside their actions."""

    context: ParseContext
    retry_policy: RetryPolicy | None = None
    mirrors: MirrorPolicies = ()
    # The optional cluster specifier plugins of the RouteConfiguration; no plugin is supported.
    plugins: frozenset[str] = frozenset()


def parse_route_action(message: Any, inherited: Inherited, problems: ValidationErrors) -> RouteAction | None:
    """Return the action, or None if the route is to be skipped (or has a problem)."""
    # A route without clusters is skipped. It is read to the end all the same: a NACK has every error.
    clusters = _clusters(message, inherited, problems)
    header_max, max_duration = _parse_max_stream_duration(message, problems)
    action = RouteAction(
        clusters=clusters,
        grpc_timeout_header_max=header_max,
        max_stream_duration=max_duration,
        # Only A31's first draft reads `timeout`: Envoy starts it at the end of the request, which gRPC does not know.
        timeout=_parse_legacy_timeout(message, "timeout"),
        max_grpc_timeout=_parse_legacy_timeout(message, "max_grpc_timeout"),
        hash_policies=parse_hash_policies(message.hash_policy, problems),
        # A44: a route's policy replaces its virtual host's even if no condition of it applies, to switch retries off.
        retry_policy=parse_retry_policy(message, problems, inherited.context.experiments.per_try_timeout)
        if message.HasField("retry_policy")
        else inherited.retry_policy,
        # A81: only a server that the bootstrap trusts may choose the `:authority` of RPCs.
        auto_host_rewrite=inherited.context.may_rewrite_authority and message.auto_host_rewrite.value,
        mirrors=parse_mirror_policies(message.request_mirror_policies, inherited.mirrors, inherited.context, problems),
    )
    return action if clusters else None


def _clusters(message: Any, inherited: Inherited, problems: ValidationErrors) -> tuple[WeightedCluster, ...]:
    """Return the clusters; none for a specifier that gRPC does not know, such as `cluster_header` or a future one."""
    match message.WhichOneof("cluster_specifier"):
        case "cluster":
            if not message.cluster:
                problems.at("cluster").add("must be non-empty")
            return (WeightedCluster(message.cluster),)
        case "weighted_clusters":
            return _weighted_clusters(message.weighted_clusters, inherited.context, problems.at("weighted_clusters"))
        case "cluster_specifier_plugin":
            _check_plugin(message.cluster_specifier_plugin, inherited, problems.at("cluster_specifier_plugin"))
    return ()


def _weighted_clusters(message: Any, context: ParseContext, problems: ValidationErrors) -> tuple[WeightedCluster, ...]:
    before = problems.count
    clusters = [
        _weighted_cluster(entry, context, problems.at(f"clusters[{index}]"))
        for index, entry in enumerate(message.clusters)
    ]
    # Weight 0 takes a cluster out of a split: no RPC is sent to it and, as in the C++ client, no cookie may name it.
    drawn = tuple(cluster for cluster in clusters if cluster.weight)
    # Only without errors in the entries: a bad entry may be the one that is missing.
    if not drawn and problems.count == before:
        problems.add("no valid clusters specified")
    # `total_weight` is deprecated and ignored: only the sum of the weights counts.
    if sum(cluster.weight for cluster in drawn) > UINT32_MAX:
        problems.add("sum of cluster weights exceeds uint32 max")
    return drawn


def _weighted_cluster(message: Any, context: ParseContext, problems: ValidationErrors) -> WeightedCluster:
    if not message.name:
        problems.at("name").add("must be non-empty")
    # A wrapper tells 0, which is valid, from unset, which is an error as in the C++ client; grpc-go takes it for 0.
    if not message.HasField("weight"):
        problems.at("weight").add("field not present")
    overrides = parse_filter_overrides(message.typed_per_filter_config, context.http_filters, problems)
    return WeightedCluster(message.name, message.weight.value, overrides)


def _check_plugin(name: str, inherited: Inherited, problems: ValidationErrors) -> None:
    if not name:
        problems.add("must be non-empty")
    elif name not in inherited.plugins:
        problems.add(f'unknown cluster specifier plugin name "{name}"')


def _parse_max_stream_duration(message: Any, problems: ValidationErrors) -> tuple[float | None, float | None]:
    """Return `grpc_timeout_header_max` and `max_stream_duration`, of which one counts at most (A31)."""
    limits, at = message.max_stream_duration, problems.at("max_stream_duration")
    if limits.HasField("grpc_timeout_header_max"):  # then the other one does not count, whatever it says
        return parse_optional_duration(limits, "grpc_timeout_header_max", at), None
    return None, parse_optional_duration(limits, "max_stream_duration", at)


def _parse_legacy_timeout(message: Any, name: str) -> float | None:
    """Read a field that only A31's first draft has. gRPC ignores it today, so a bad value counts as unset."""
    return parse_duration(getattr(message, name), ValidationErrors()) if message.HasField(name) else None
