"""The context of parsers: the features that the client supports, and the trust in the server."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from .experiments import NO_EXPERIMENTS, Experiments
from .filter_config import HttpFilterType
from .filters import HTTP_FILTERS
from .leaf_policy import StructPolicy


@dataclass(frozen=True, slots=True)
class ParseContext:
    """The settings that parsers need besides the bytes.

    `http_filters` has message names as keys (`envoy.extensions...Router`). `struct_policies` are the LB policies that a
    TypedStruct may name: the user's, and those of trxds as in a service config (A52). `certificate_providers` are the
    names of the bootstrap's providers (A29). `experiments` are the features that the environment switches on. With
    `mirroring` routes' `request_mirror_policies` are read, which no gRFC has. `server_features` are the bootstrap's,
    and `server` is the one that a resource means by `self`.
    """

    http_filters: Mapping[str, HttpFilterType] = field(default_factory=lambda: HTTP_FILTERS)
    struct_policies: Mapping[str, StructPolicy] = field(default_factory=dict)
    certificate_providers: frozenset[str] = frozenset()
    experiments: Experiments = NO_EXPERIMENTS
    mirroring: bool = False
    server_features: frozenset[str] = frozenset()
    server: Hashable = None
    # Each `Endpoint` in use, by its bytes: if one of ten thousand changes, one is parsed, and all others stay the same
    # objects, which compare fast.
    endpoints: MutableMapping[bytes, Any] = field(default_factory=WeakValueDictionary, repr=False, compare=False)

    @property
    def may_rewrite_authority(self) -> bool:
        """Whether a route may have the `:authority` of RPCs rewritten (A81)."""
        return self.experiments.authority_rewrite and "trusted_xds_server" in self.server_features
