"""The page's second question: what is in this resource? Its text in use, the version before, and a refused one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from trxds.core.clock import Clock
from trxds.transport.run_in_thread import run_in_thread
from trxds.xds.discovery_response import NO_BYTES
from trxds.xds.resource import Resource, UpdateMetadata

from ..channel_source import Source
from .message_text import message_data

MAX_SHOWN_SIZE = 1024 * 1024  # bytes of a resource on the wire; its text is several times as long


async def show_resource(channels: Mapping[str, Source], question: Mapping[str, Any]) -> dict[str, Any]:
    """Turn `{"key": "shop/CDS/cart"}` into the resource's versions, the oldest first, or into `{"error"}`.

    Each version has a `role` (before, in use, refused), a text in proto-JSON, and `note` in place of a text that is not
    shown.
    """
    key = question.get("key")
    resource = _find(channels, key)
    if resource is None:
        return {"error": f"there is no resource {key!r} any more"}
    clock = Clock.now()
    versions = [
        {
            "role": role,
            "version": update.version,
            "time": round(clock.epoch + update.at, 3),
            "server": update.server,
            # Thousands of endpoints take a second, which RPCs must not wait for.
            **await run_in_thread(partial(_text, update)),
        }
        for role, update in _versions(resource)
    ]
    return {"key": key, "versions": versions}


def _find(channels: Mapping[str, Source], key: Any) -> Resource | None:
    for name, channel in channels.items():
        client = channel.admin_view().client
        for each in tuple(client.resources) if client is not None else ():
            if key == f"{name}/{each.type.kind}/{each.name}":
                return each
    return None


def _versions(resource: Resource) -> Iterator[tuple[str, UpdateMetadata]]:
    if resource.previous is not None:
        yield "before", resource.previous
    if resource.accepted is not None:
        yield "in use", resource.accepted
    if resource.failed is not None and resource.failed.raw != NO_BYTES:
        yield "refused", resource.failed


def _text(update: UpdateMetadata) -> dict[str, str]:
    if update.raw == NO_BYTES:
        return {"text": "", "note": "the program does not keep so large a version once another one is in use"}
    url, data = update.raw
    if len(data) > MAX_SHOWN_SIZE:
        return {"text": "", "note": f"{len(data)} bytes are too many for a page; grpcdebug's xds config shows them"}
    return {"text": json.dumps(message_data(url, data), indent=2, ensure_ascii=False), "note": ""}
