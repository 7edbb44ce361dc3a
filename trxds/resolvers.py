"""`trxds.resolvers` has the classes for a custom resolver; see `docs/how-to/custom-resolver.md`.

async with trxds.open_channel("my:///cart", resolvers={"my": my_resolver}) as channel: ...
"""

from trxds.resolver.resolver_update import Resolver, ResolverArgs, ResolverUpdate
from trxds.resolver.target_uri import ResolverTarget
from trxds.resources.endpoint import Endpoint, HealthStatus

__all__ = [
    "Endpoint",
    "HealthStatus",
    "Resolver",
    "ResolverArgs",
    "ResolverTarget",
    "ResolverUpdate",
]
