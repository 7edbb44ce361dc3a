"""From where a resource wants another one fetched: all that gRPC knows is the same ADS stream."""

from __future__ import annotations

from typing import Any


def is_ads_or_self(source: Any) -> bool:
    return source.WhichOneof("config_source_specifier") in ("ads", "self")
