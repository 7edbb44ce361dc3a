"""What a route does with an RPC: clusters, time limits, hash and retries (A28, A31, A42, A44)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from .filters import FilterConfig
from .regex import Rewrite
from .retry import RetryPolicy


@dataclass(frozen=True, slots=True)
class WeightedCluster:
    """A cluster and its share of the RPCs; never of weight 0."""

    name: str
    weight: int = 1
    filter_overrides: Mapping[str, FilterConfig] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeaderHash:
    """Hash a header's value, rewritten if asked for. After a `terminal` policy that yields, no other counts."""

    header: str
    rewrite: Rewrite | None = None
    terminal: bool = False


@dataclass(frozen=True, slots=True)
class ChannelIdHash:
    """Hash what is the same for all RPCs of a channel."""

    terminal: bool = False


HashPolicy: TypeAlias = HeaderHash | ChannelIdHash


@dataclass(frozen=True, slots=True)
class RouteAction:
    """A plain cluster is one entry of weight 1. Times are seconds; None is unset, 0 is no limit.

    `timeout` and `max_grpc_timeout` are those of A31's first draft, for channels that ask for it.
    """

    clusters: tuple[WeightedCluster, ...]
    grpc_timeout_header_max: float | None = None
    max_stream_duration: float | None = None
    timeout: float | None = None
    max_grpc_timeout: float | None = None
    hash_policies: tuple[HashPolicy, ...] = ()
    retry_policy: RetryPolicy | None = None
    auto_host_rewrite: bool = False
