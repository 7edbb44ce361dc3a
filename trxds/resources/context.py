"""The context of parsers: the features that the client supports, and the trust in the server."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, MutableMapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from .endpoint import Endpoint
from .experiments import NO_EXPERIMENTS, Experiments
from .filter_config import HttpFilterType
from .filters import HTTP_FILTERS
from .lb_policy import LB_POLICIES, LbPolicyType, ParseSettings, StructPolicy


@dataclass(frozen=True, slots=True)
class ParseContext:
    """The settings that parsers need besides the bytes.

    The registries have message names as keys (`envoy.extensions...Router`). `custom_policies` are the user's (A52);
    `struct_policies` are those of trxds that a TypedStruct may name, as a service config does. `certificate_providers`
    are the names of the bootstrap's providers (A29). `override_host` False switches session affinity off: no such
    filter, no DRAINING hosts (A55's guard). `aggregate_lb_policy` gives the clusters of an aggregate its load balancing
    policy, as before A75. With `per_try_timeout` that field of a retry policy is read, which A44 ignores; with
    `connection_scaling` the number of connections that a cluster allows to a host (A105's guard).
    `experiments` are the features that the environment switches on. `server_features` are the bootstrap's. With
    `authority_rewrite`, and `trusted_xds_server` among them, a route's `auto_host_rewrite` is read (A81). With
    `mirroring` routes' `request_mirror_policies` are read, which no gRFC has. `server` is the one that a resource means
    by `self`.
    """

    http_filters: Mapping[str, HttpFilterType] = field(default_factory=lambda: HTTP_FILTERS)
    lb_policies: Mapping[str, LbPolicyType] = field(default_factory=lambda: LB_POLICIES)
    custom_policies: Mapping[str, ParseSettings] = field(default_factory=dict)
    struct_policies: Mapping[str, StructPolicy] = field(default_factory=dict)
    certificate_providers: frozenset[str] = frozenset()
    override_host: bool = True
    aggregate_lb_policy: bool = False
    per_try_timeout: bool = False
    experiments: Experiments = NO_EXPERIMENTS
    authority_rewrite: bool = False
    mirroring: bool = False
    connection_scaling: bool = False
    server_features: frozenset[str] = frozenset()
    server: Hashable = None
    # Endpoints in use, by their bytes: if one of ten thousand changes, one is parsed, and all others stay the same
    # objects, which compare fast.
    endpoints: MutableMapping[bytes, Endpoint] = field(default_factory=WeakValueDictionary, repr=False, compare=False)

    @property
    def may_rewrite_authority(self) -> bool:
        """Whether a route may have the `:authority` of RPCs rewritten (A81)."""
        return self.authority_rewrite and "trusted_xds_server" in self.server_features
