"""Mirroring of requests (`request_mirror_policies`): copies of calls that go to another cluster, as in Envoy.

No gRFC has this field, and gRPC's other clients ignore it. So it is read only where a program asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from .units import MILLION, per_million
from .validation_errors import ValidationErrors

if TYPE_CHECKING:
    from .context import ParseContext

# Envoy's check of header names and values that are not strict.
_SAFE = re.compile(r"[^\x00\r\n]*")


class RequestMirrorPolicy(Struct, frozen=True):
    """A copy of `per_million` of a million calls goes to `cluster`, or to the one that a header of the call names.

    The copy's `:authority` is the call's with the suffix `-shadow` (`has_suffix`), or `authority`. A policy with a
    field that trxds cannot follow has its name in `unsupported`, and copies nothing.
    """

    cluster: str = ""
    cluster_header: str = ""
    per_million: int = MILLION
    has_suffix: bool = True
    authority: str = ""
    unsupported: str = ""

    def __str__(self) -> str:
        to = f"cluster {self.cluster}" if self.cluster else f"the cluster that the header {self.cluster_header!r} names"
        share = f"{self.per_million * 100 / MILLION:g}% of calls"
        return f"{share} to {to}" if not self.unsupported else f"none to {to}: trxds does not know {self.unsupported}"


MirrorPolicies: TypeAlias = tuple[RequestMirrorPolicy, ...]


def parse_mirror_policies(
    messages: Iterable[Any], inherited: MirrorPolicies, context: ParseContext, problems: ValidationErrors
) -> MirrorPolicies:
    """Return the policies of a route, a virtual host or a RouteConfiguration; none unless the client mirrors.

    Envoy merges none: the most specific place that has any replaces the `inherited` ones.
    """
    if not context.mirroring:
        return ()
    each = enumerate(messages)
    return tuple(_policy(one, problems.at(f"request_mirror_policies[{index}]")) for index, one in each) or inherited


def _policy(message: Any, problems: ValidationErrors) -> RequestMirrorPolicy:
    if message.cluster and message.cluster_header:
        problems.add("only one of cluster and cluster_header may be set")
    elif not message.cluster and not message.cluster_header:
        problems.add("one of cluster and cluster_header must be set")
    for name in ("cluster_header", "host_rewrite_literal"):
        if not _SAFE.fullmatch(getattr(message, name)):
            problems.at(name).add("has a character that no header may have")
    return RequestMirrorPolicy(
        message.cluster,
        message.cluster_header.lower(),
        _share(message, problems),
        not message.disable_shadow_host_suffix_append,
        message.host_rewrite_literal,
        # To ignore one might send a header that the operator wants removed.
        "request_headers_mutations" if message.request_headers_mutations else "",
    )


def _share(message: Any, problems: ValidationErrors) -> int:
    if not message.HasField("runtime_fraction"):
        return MILLION
    # There is no runtime whose key could have another value, so the default counts, as for routes (A28).
    fraction, at = message.runtime_fraction, problems.at("runtime_fraction")
    if not at.has_field(fraction, "default_value"):
        return 0
    return per_million(fraction.default_value, at.at("default_value")) or 0
