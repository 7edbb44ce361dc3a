"""Where the configuration of a channel comes from: a control plane (`xds.py`), or its target alone (`plain.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from trxds.core.conflating_queue import ConflatingQueue
from trxds.lb.circuit_breakers import CircuitBreakers
from trxds.lb.config_builder import Update
from trxds.lb.configs import OverrideHostConfig
from trxds.lb.custom_policy import PolicyType
from trxds.lb.load_report.load_store import LoadStore
from trxds.lb.registry import BUILT_IN
from trxds.resolver.service_config import RetryThrottling
from trxds.resolver.xds_resolver import ResolverResultHandler
from trxds.transport.certificates import CertificateFiles

from .background_services import Services

if TYPE_CHECKING:
    from trxds.xds.xds_client import XdsClient


class ResolverInterface(Protocol):
    """From a target to a data plane; it tells a `Downstream`, and is told of the tree by its mailbox, as "root"."""

    @property
    def mailbox(self) -> ConflatingQueue[Any]: ...

    async def run(self) -> None: ...

    def reset(self) -> None:
        """The tree has been replaced by one that knows nothing. Plain; only while it runs."""

    def re_resolve(self, name: str) -> None:
        """The addresses of this DNS name seem to be out of date. Plain."""

    @property
    def request_re_resolution(self) -> Callable[[], object] | None:
        """What to tell, if anything, when a host is lost. Plain."""


Policies: TypeAlias = Mapping[str, PolicyType]  # a user's own, by name


@dataclass(frozen=True, slots=True)
class ResolverSetup:
    """`begin` makes what resolves the target; each one that it makes runs once.

    `root_policy` is the one at the top of the tree, and `to_update` makes what it is given of what was resolved.
    `authority` is what `:authority` is, and what hosts prove if TLS asks for nothing else. `providers` have the
    certificates that a control plane may name, `services` run as long as the channel. `throttling` is of retries,
    and `awaited` what a call waits for first: `str` has it.
    """

    authority: str
    begin: Callable[[ResolverResultHandler], ResolverInterface]
    root_policy: str
    to_update: Callable[[Any], Update]
    policies: Policies
    limits: CircuitBreakers = field(default_factory=CircuitBreakers)
    loads: LoadStore = field(default_factory=LoadStore)
    providers: Mapping[str, CertificateFiles] = field(default_factory=dict)
    services: Services = field(default_factory=dict)
    client: XdsClient | None = None
    throttling: RetryThrottling | None = None
    awaited: object = "a configuration from the control plane"


def check_policies(policies: Policies) -> None:
    """`ValueError` for a name that is taken."""
    for name, kind in policies.items():
        if name in BUILT_IN or name == OverrideHostConfig.policy:
            raise ValueError(f"trxds has a load balancing policy {name!r} of its own; choose another name")
        if not isinstance(kind, PolicyType):
            raise TypeError(f"policies[{name!r}] is a PolicyType, as in PolicyType(MyPolicy), not {kind!r}")
