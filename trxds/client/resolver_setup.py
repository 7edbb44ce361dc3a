"""A `ResolverSetup` is the source of a channel's configuration: `shared_xds_client.py` or `non_xds_channel.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct, field

from trxds.core.arguments import check_type
from trxds.core.conflating_queue import ConflatingQueue
from trxds.lb.circuit_breakers import CircuitBreakers
from trxds.lb.config_builder import Update
from trxds.lb.custom_policy import PolicyType
from trxds.lb.load_report.load_store import LoadStore
from trxds.lb.registry import is_built_in
from trxds.resolver.resolver_result_handler import ResolverResultHandler
from trxds.transport.certificates import CertificateFiles

from .background_services import Services
from .custom_filter import HttpFilters

if TYPE_CHECKING:
    from trxds.xds.xds_client import XdsClient


class ResolverInterface(Protocol):
    """A resolver calls its `ResolverResultHandler`, and gets the tree's states from its queue, as "root"."""

    @property
    def queue(self) -> ConflatingQueue[Any]: ...

    async def run(self) -> None: ...

    def pause(self) -> None:
        """Stop what is of no use while the channel is IDLE; `reset` begins it again. Synchronous."""

    def reset(self) -> None:
        """Configure a new, empty tree from the beginning. Synchronous; only while the resolver runs."""

    def re_resolve(self, name: str) -> None:
        """Resolve this DNS name again, because its addresses seem to be out of date. Synchronous."""

    def re_resolve_all(self) -> None:
        """Resolve all DNS names again soon. Synchronous."""

    @property
    def request_re_resolution(self) -> Callable[[], object] | None:
        """Return the function to call when a host is lost, if there is one. It is synchronous."""


Policies: TypeAlias = Mapping[str, PolicyType]  # a user's own, by name


class ResolverSetup(Struct, frozen=True):
    """`ResolverSetup` has the resolver of a target and its settings; `make_resolver` makes one, for one run.

    `root_policy` is the policy at the top of the tree, and `to_update` converts a resolver's result for it. `authority`
    is the `:authority` of calls, and the name that hosts prove unless TLS is configured with another. `providers` have
    the certificates that a control plane may name (A29); `services` run as long as the channel. `str(first_wait)` names
    the object of a first call's wait. `http_filters` are the user's own, by the types of their configurations (A39).
    `canonical_target` is the target with a scheme; empty if it follows from the target's text alone.
    """

    authority: str
    make_resolver: Callable[[ResolverResultHandler], ResolverInterface]
    root_policy: str
    to_update: Callable[[Any], Update]
    policies: Policies
    limits: CircuitBreakers = field(default_factory=CircuitBreakers)
    loads: LoadStore = field(default_factory=LoadStore)
    providers: Mapping[str, CertificateFiles] = field(default_factory=dict)
    services: Services = field(default_factory=dict)
    client: XdsClient | None = None
    first_wait: object = "a configuration from the control plane"
    http_filters: HttpFilters = field(default_factory=dict)
    canonical_target: str = ""


def checked_policies(policies: Policies | None) -> Policies:
    """Return the policies, none for None.

    `ValueError` for the name of a built-in policy, `TypeError` for another value than a `PolicyType`.
    """
    policies = policies or {}
    check_type("policies", policies, Mapping, "a mapping of a name to a PolicyType")
    for name, kind in policies.items():
        # A custom policy of that name would replace the built-in one in every cluster.
        if is_built_in(name):
            raise ValueError(f"trxds has a load balancing policy {name!r} of its own; choose another name")
        if not isinstance(kind, PolicyType):
            raise TypeError(f"policies[{name!r}] is a PolicyType, as in PolicyType(MyPolicy), not {kind!r}")
    return policies
