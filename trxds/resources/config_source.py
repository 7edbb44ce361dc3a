"""The config source of a resource: gRPC supports only the ADS stream that the resource came on (A27)."""

from __future__ import annotations

from typing import Any


def is_ads_or_self(source: Any) -> bool:
    return source.WhichOneof("config_source_specifier") in ("ads", "self")
