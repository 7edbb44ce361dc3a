"""Resources are written as control planes' authors write them: proto-JSON, read by the type under test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pytest

from trxds.resources import protos
from trxds.resources.types import ParseContext, Parsed, ResourceType

Read: TypeAlias = Callable[..., Parsed]


@pytest.fixture
def read() -> Read:
    def read(kind: ResourceType, resource: Mapping[str, Any], context: ParseContext | None = None) -> Parsed:
        packed = protos.from_json({"@type": kind.type_url, **resource})
        return kind.read(packed, context or ParseContext())

    return read
