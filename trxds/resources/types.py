"""The four types of resources, and the way from a server's message to a value.

`read` takes a response's resource: it unwraps it if necessary (A47), checks its type and parses it. `read_in_slices`
does so from the unwrapped resource on in slices, for a task that has to let others run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct, structs

from trxds.core.redacted_struct import RedactedStruct

from . import protos
from .cluster import parse_cluster
from .context import ParseContext
from .cooperative_parse import Slices, run_at_once
from .endpoint import parse_cluster_load_assignment
from .extension import parse
from .listener import parse_listener
from .route import parse_route_config
from .validation_errors import ValidationErrors

__all__ = [
    "CDS",
    "EDS",
    "LDS",
    "RDS",
    "RESOURCE_TYPES",
    "ParseContext",
    "Parsed",
    "ResourceType",
    "UnwrappedResource",
    "unwrap",
]

Conversion: TypeAlias = Callable[[Any, ParseContext, ValidationErrors], Slices[object]]

_WRAPPER = protos.TYPE_PREFIX + protos.type_name(protos.Resource)


class Parsed(Struct, frozen=True, gc=False):
    """A resource as far as it could be read. With `errors` it has no value, but it may have a name.

    `own_name` is the name in its bytes. That of a wrapper goes before it.
    """

    name: str | None
    value: object | None
    errors: tuple[str, ...] = ()
    own_name: str | None = None


class UnwrappedResource(Struct, frozen=True):
    """The content of an Any; `name` is the wrapper's. If an `error` says that there is none, it is the Any itself."""

    type_url: str
    value: bytes
    name: str | None = None
    error: str | None = None


def unwrap(resource: Any) -> UnwrappedResource:
    """Return the resource, out of its envoy.service.discovery.v3.Resource if it has one."""
    if resource.type_url != _WRAPPER:
        return UnwrappedResource(resource.type_url, resource.value)
    wrapper = parse(protos.Resource, resource.value)
    if wrapper is None:
        return UnwrappedResource(_WRAPPER, resource.value, error="Can't decode Resource proto wrapper")
    name = wrapper.name or None
    if not wrapper.HasField("resource"):
        return UnwrappedResource(_WRAPPER, resource.value, name, "No resource present in Resource proto wrapper")
    return UnwrappedResource(wrapper.resource.type_url, wrapper.resource.value, name)


# By identity: there is one of each, and a hash of all fields is slow in every look-up.
class ResourceType(RedactedStruct, frozen=True, eq=False, gc=False):
    """A type of resource. With `full_state` a response has every resource of the type: others were deleted."""

    redacted: ClassVar[frozenset[str]] = frozenset({"_message", "_name_field", "_convert"})
    kind: str
    name: str
    full_state: bool
    _message: Any
    _name_field: str
    _convert: Conversion
    type_url: str = ""  # that of `_message`

    def __post_init__(self) -> None:
        structs.force_setattr(self, "type_url", protos.TYPE_PREFIX + protos.type_name(self._message))

    def read(self, resource: Any, context: ParseContext) -> Parsed:
        """Parse a resource of a response, a google.protobuf.Any."""
        return run_at_once(self.read_in_slices(unwrap(resource), context))

    def read_in_slices(self, resource: UnwrappedResource, context: ParseContext) -> Slices[Parsed]:
        name, url = resource.name, resource.type_url
        if resource.error is not None:
            return Parsed(name, None, (resource.error,))
        if url != self.type_url:
            return Parsed(name, None, (f"incorrect resource type {url!r} (should be {self.type_url!r})",))
        message = parse(self._message, resource.value)
        if message is None:
            return Parsed(name, None, (f"Can't decode {self.name} resource",))
        problems = ValidationErrors()
        converted = yield from self._convert(message, context, problems)
        # As in the C++ client the wrapper's name goes first: a name of the new style need not be in the resource (A47).
        own_name = str(getattr(message, self._name_field))
        name = name or own_name
        return Parsed(name, None, problems.texts, own_name) if problems else Parsed(name, converted, (), own_name)

    def validation_message(self, errors: tuple[str, ...]) -> str:
        """Return all errors of one resource, as a NACK and the RPCs that fail because of it show them."""
        return f"errors validating {self.name} resource: [{'; '.join(errors)}]"


# xDS protocol: LDS and CDS responses have all resources, so the others were deleted; a resource that an RDS or EDS
# response leaves out is unchanged.
LDS = ResourceType("LDS", "Listener", True, protos.Listener, "name", parse_listener)
RDS = ResourceType("RDS", "RouteConfiguration", False, protos.RouteConfiguration, "name", parse_route_config)
CDS = ResourceType("CDS", "Cluster", True, protos.Cluster, "name", parse_cluster)
EDS = ResourceType(
    "EDS", "ClusterLoadAssignment", False, protos.ClusterLoadAssignment, "cluster_name", parse_cluster_load_assignment
)

# In the order in which they are requested.
RESOURCE_TYPES: Mapping[str, ResourceType] = MappingProxyType({each.type_url: each for each in (LDS, RDS, CDS, EDS)})
