"""This file has the short names of load balancing policies, for people."""

from __future__ import annotations


def short_policy_name(policy: str) -> str:
    """Return `cluster_impl` for `xds_cluster_impl_experimental`: the name in node paths, task names, logs and pages."""
    return policy.removeprefix("xds_").removesuffix("_experimental")
