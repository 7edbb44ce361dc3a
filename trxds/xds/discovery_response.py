"""The content of a DiscoveryResponse: each resource as a value, or with its errors (A46).

Parsing is the longest step of an update, so it comes in slices, and other tasks can run in between. A resource with
the same bytes as before is not parsed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from msgspec import Struct, structs

from trxds.core.status import StatusCode
from trxds.resources.cooperative_parse import Slices
from trxds.resources.protos import AnyProto
from trxds.resources.types import ParseContext, Parsed, ResourceType, unwrap
from trxds.resources.validation_errors import first_errors

from .resource_names import canonical, check_type

Raw: TypeAlias = tuple[str, bytes]  # the type URL and the bytes of a resource, out of its wrapper
NO_BYTES: Raw = ("", b"")
MAX_NACK_SIZE = 64 * 1024  # characters of the errors of all resources of a response

_CODES = frozenset(int(code) for code in StatusCode)


class ParsedResource(Struct, frozen=True):
    """One resource of a response: its bytes, and the result of parsing them.

    `parsed.name` is None if not even the name could be read.
    """

    raw: Raw
    parsed: Parsed
    version: str | None = None  # the resource's own version, which only delta has


class ResourceError(Struct, frozen=True):
    """An error that the server sends in place of a resource (xRFC TP3); `code` is a google.rpc.Code."""

    name: str
    code: int
    message: str

    def __str__(self) -> str:
        code = StatusCode(self.code).name if self.code in _CODES else f"code {self.code}"
        return f"{code}: {self.message}"


@dataclass(frozen=True)  # without slots, for the cached properties
class ParsedResponse:
    """A response of a known type.

    `removed` are resources that the server has deleted. Unless the response is `partial`, resources of a full-state
    type that it leaves out are deleted too.
    """

    type: ResourceType
    version: str
    nonce: str
    items: tuple[ParsedResource, ...]
    failed: tuple[ResourceError, ...] = ()
    removed: tuple[str, ...] = ()
    partial: bool = False

    @cached_property
    def errors(self) -> tuple[str, ...]:
        """Return a text for each bad resource, worded as in the C++ client: people search for these texts.

        They are bounded, because a server refuses a NACK that is too large, and would send the same resources again.
        """
        bad = [(index, item.parsed) for index, item in enumerate(self.items) if item.parsed.errors]
        return first_errors((_error_text(*each, self.type) for each in bad), len(bad), MAX_NACK_SIZE)

    @cached_property
    def names(self) -> Set[str]:
        """Return the names that the response has a resource or an error for."""
        of_items = {item.parsed.name for item in self.items if item.parsed.name is not None}
        return of_items | {each.name for each in self.failed}

    @property
    def rejected(self) -> Mapping[str | None, list[str]]:
        """Return the errors of each bad resource; resources without a name are together under None."""
        refused: dict[str | None, list[str]] = {}
        for item in self.items:
            if item.parsed.errors:
                refused.setdefault(item.parsed.name, []).extend(item.parsed.errors)
        return refused

    @cached_property
    def is_complete(self) -> bool:
        """Return whether the server has no other requested resource of this type.

        An unreadable name may be any of them.
        """
        return self.type.full_state and not self.partial and all(item.parsed.name is not None for item in self.items)


class UnknownResponse(Struct, frozen=True):
    """A message that is neither accepted nor rejected, and does not count as a response."""

    reason: str


def read_resource(
    resource: AnyProto,
    type: ResourceType,
    known: Mapping[Raw, Parsed],
    context: ParseContext,
    names: set[str],
    name: str = "",
) -> Slices[ParsedResource]:
    """Parse one resource of a response; `name` is the one that it came with, outside of its Any.

    `names` are those read before it in this response; its own name is added.
    """
    inner = unwrap(resource)
    if name:
        inner = structs.replace(inner, name=name)
    raw = inner.type_url, inner.value
    # A resent resource with the same bytes is the same object, which is compared at once everywhere.
    parsed = known.get(raw)
    if parsed is None:
        parsed = _with_canonical_name((yield from type.read_in_slices(inner, context)), type)
    elif (own := inner.name or parsed.own_name) and own != parsed.name and canonical(own) != parsed.name:
        # Resources of which one has its name from its wrapper may have the same bytes.
        parsed = _with_canonical_name(structs.replace(parsed, name=own), type)
    if parsed.name in names:
        # The first one is used. The second gets no name, so it changes no resource, but the response is rejected.
        parsed = Parsed(None, None, (f"{parsed.name}: duplicate resource name",))
    elif parsed.name is not None:
        names.add(parsed.name)
    return ParsedResource(raw, parsed)


def _with_canonical_name(parsed: Parsed, type: ResourceType) -> Parsed:
    """Return the resource by its canonical name. A name of another type counts as no name: nobody can request it."""
    if parsed.name is None:
        return parsed
    # A47: an xdstp: name has the type of its resource in it.
    if problem := check_type(parsed.name, type.type_url):
        return Parsed(None, None, (f"{parsed.name}: {problem}",))
    name = canonical(parsed.name)
    return parsed if name == parsed.name else structs.replace(parsed, name=name)


def read_resource_errors(response: Any) -> tuple[ResourceError, ...]:
    """Return the resource errors of a response, of either protocol variant."""
    return tuple(
        ResourceError(canonical(error.resource_name.name), error.error_detail.code, error.error_detail.message)
        for error in response.resource_errors
    )


def describe_errors(errors: tuple[str, ...], type: ResourceType) -> str:
    return f"INVALID_ARGUMENT: {type.validation_message(errors)}"


def _error_text(index: int, parsed: Parsed, type: ResourceType) -> str:
    if parsed.name is None:
        return f"resource index {index}: {'; '.join(parsed.errors)}"
    return f"resource index {index}: {parsed.name}: {describe_errors(parsed.errors, type)}"
