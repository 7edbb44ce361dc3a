"""What a DiscoveryResponse says: each resource as a value, or with its errors (A46).

Parsing is the long part of an update, so it comes in slices: a shell can let others run in
between. A resource whose bytes we have already is not parsed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from trxds.resources.protos import DiscoveryResponse
from trxds.resources.slices import Slices
from trxds.resources.types import RESOURCE_TYPES, ParseContext, Parsed, ResourceType

Raw: TypeAlias = tuple[str, bytes]  # the type URL and the bytes of an Any


@dataclass(frozen=True, slots=True)
class Item:
    """One resource of a response: as it came, and what parsing made of it.

    `parsed.name` is None if not even the name could be read.
    """

    raw: Raw
    parsed: Parsed


@dataclass(frozen=True, slots=True)
class Reading:
    """A response of a type that we know."""

    type: ResourceType
    version: str
    nonce: str
    items: tuple[Item, ...]

    @property
    def errors(self) -> tuple[str, ...]:
        """A text for each bad resource, as the C++ client words them: people search for these."""
        return tuple(
            _text(index, item.parsed, self.type) for index, item in enumerate(self.items) if item.parsed.errors
        )


def known_type(response: DiscoveryResponse) -> ResourceType | None:
    return RESOURCE_TYPES.get(response.type_url)


def read(
    response: DiscoveryResponse, type: ResourceType, known: Mapping[Raw, Parsed], context: ParseContext
) -> Slices[Reading]:
    """Parse each resource, unless `known` has what its bytes were parsed to before."""
    items: list[Item] = []
    names: set[str] = set()
    for resource in response.resources:
        raw = resource.type_url, resource.value
        parsed = known.get(raw) or (yield from type.read_in_slices(resource, context))
        if parsed.name in names:
            # The first one stands. Without a name the second touches nothing, but is refused.
            parsed = Parsed(None, None, (f"{parsed.name}: duplicate resource name",))
        elif parsed.name is not None:
            names.add(parsed.name)
        items.append(Item(raw, parsed))
        yield
    return Reading(type, response.version_info, response.nonce, tuple(items))


def invalid(errors: tuple[str, ...], type: ResourceType) -> str:
    return f"INVALID_ARGUMENT: {type.complaint(errors)}"


def _text(index: int, parsed: Parsed, type: ResourceType) -> str:
    if parsed.name is None:
        return f"resource index {index}: {'; '.join(parsed.errors)}"
    return f"resource index {index}: {parsed.name}: {invalid(parsed.errors, type)}"
