"""What a DiscoveryResponse says: each resource as a value, or with its errors (A46).

Parsing is the long part of an update, so it comes in slices: a shell can let others run in
between. A resource whose bytes we have already is not parsed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from trxds.core.status import StatusCode
from trxds.resources.cooperative_parse import Slices
from trxds.resources.protos import AnyProto, DiscoveryResponse
from trxds.resources.types import RESOURCE_TYPES, ParseContext, Parsed, ResourceType

from .resource_names import canonical, check_type

Raw: TypeAlias = tuple[str, bytes]  # the type URL and the bytes of an Any
NOTHING: Raw = ("", b"")

_CODES = frozenset(int(code) for code in StatusCode)


@dataclass(frozen=True, slots=True)
class ParsedResource:
    """One resource of a response: as it came, and what parsing made of it.

    `parsed.name` is None if not even the name could be read.
    """

    raw: Raw
    parsed: Parsed
    version: str | None = None  # its own, where a server counts each resource for itself


@dataclass(frozen=True, slots=True)
class ResourceError:
    """In place of a resource, why the server cannot give it (xRFC TP3); `code` is a google.rpc.Code."""

    name: str
    code: int
    message: str

    def __str__(self) -> str:
        code = StatusCode(self.code).name if self.code in _CODES else f"code {self.code}"
        return f"{code}: {self.message}"


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """A response of a type that we know.

    `removed` are resources that the server says are gone. If it is not `partial`, then so are
    those of a full-state type that it leaves out.
    """

    type: ResourceType
    version: str
    nonce: str
    items: tuple[ParsedResource, ...]
    failed: tuple[ResourceError, ...] = ()
    removed: tuple[str, ...] = ()
    partial: bool = False

    @property
    def errors(self) -> tuple[str, ...]:
        """A text for each bad resource, as the C++ client words them: people search for these."""
        return tuple(
            _text(index, item.parsed, self.type) for index, item in enumerate(self.items) if item.parsed.errors
        )

    @property
    def names(self) -> Set[str]:
        """What it has something to say of, but for what it removes."""
        names = {item.parsed.name for item in self.items} | {each.name for each in self.failed}
        return {name for name in names if name is not None}

    @property
    def refused(self) -> dict[str | None, tuple[str, ...]]:
        """The errors of each bad resource; those without a name are together under None."""
        refused: dict[str | None, tuple[str, ...]] = {}
        for item in self.items:
            if item.parsed.errors:
                refused[item.parsed.name] = (*refused.get(item.parsed.name, ()), *item.parsed.errors)
        return refused

    @property
    def is_complete(self) -> bool:
        """The server has nothing else of this type that we asked for. A name that cannot be read may be any."""
        return self.type.full_state and not self.partial and all(item.parsed.name is not None for item in self.items)


@dataclass(frozen=True, slots=True)
class UnknownResponse:
    """A message that is neither accepted nor refused, and does not count as an answer."""

    reason: str


def known_type(response: Any) -> ResourceType | None:
    return RESOURCE_TYPES.get(response.type_url)


def read(
    response: DiscoveryResponse, type: ResourceType, known: Mapping[Raw, Parsed], context: ParseContext
) -> Slices[ParsedResponse]:
    """A state-of-the-world response; what `known` has of it is not parsed again."""
    items: list[ParsedResource] = []
    names: set[str] = set()
    for resource in response.resources:
        items.append((yield from read_item(resource, type, known, context, names)))
        yield
    return ParsedResponse(type, response.version_info, response.nonce, tuple(items), failures(response))


def read_item(
    resource: AnyProto, type: ResourceType, known: Mapping[Raw, Parsed], context: ParseContext, names: set[str]
) -> Slices[ParsedResource]:
    """One resource of a response in which `names` have been read before; its own goes there too."""
    raw = resource.type_url, resource.value
    parsed = known.get(raw) or _named((yield from type.read_in_slices(resource, context)), type)
    if parsed.name in names:
        # The first one stands. Without a name the second touches nothing, but is refused.
        parsed = Parsed(None, None, (f"{parsed.name}: duplicate resource name",))
    elif parsed.name is not None:
        names.add(parsed.name)
    return ParsedResource(raw, parsed)


def _named(parsed: Parsed, type: ResourceType) -> Parsed:
    """By the name that it is asked for; one that nobody may ask for is none."""
    if parsed.name is None:
        return parsed
    if problem := check_type(parsed.name, type.type_url.rpartition("/")[2]):
        return Parsed(None, None, (f"{parsed.name}: {problem}",))
    name = canonical(parsed.name)
    return parsed if name == parsed.name else replace(parsed, name=name)


def failures(response: Any) -> tuple[ResourceError, ...]:
    """The resource errors of a response, of either protocol."""
    return tuple(
        ResourceError(canonical(error.resource_name.name), error.error_detail.code, error.error_detail.message)
        for error in response.resource_errors
    )


def invalid(errors: tuple[str, ...], type: ResourceType) -> str:
    return f"INVALID_ARGUMENT: {type.validation_message(errors)}"


def _text(index: int, parsed: Parsed, type: ResourceType) -> str:
    if parsed.name is None:
        return f"resource index {index}: {'; '.join(parsed.errors)}"
    return f"resource index {index}: {parsed.name}: {invalid(parsed.errors, type)}"
