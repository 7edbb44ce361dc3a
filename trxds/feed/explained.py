"""Where a call of this program would go, for who is not in it.

    GET /explain?channel=shop&method=/shop.Cart/Add&metadata=[["canary","yes"]]

The answer is one line of JSON: `Explanation.as_data()`, and as `text` the lines that people read. Nothing is sent or
connected for it, as by `channel.explain`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import trio

from trxds.config.explain import Explanation
from trxds.ground.documents import parse_json
from trxds.ground.status import RpcError

from .http import Refusal
from .watched import Source, watched

PARAMETERS = ("channel", "method", "metadata")
WITHIN = 4.0  # seconds for a configuration; who asks has the patience of one second more


class Explaining(Source, Protocol):
    """A channel, which can be asked as well as looked at."""

    async def explain(
        self, method: str, metadata: Iterable[tuple[str, str | bytes]] = (), timeout: float | None = None
    ) -> Explanation: ...


def by_key(channels: Sequence[Explaining]) -> dict[str, Explaining]:
    """By the names that they have in the feed."""
    return {each.key: channel for each, channel in zip(watched(channels), channels, strict=True)}


async def explained(channels: Mapping[str, Explaining], query: Mapping[str, str]) -> str | Refusal:
    """`channel` is a key of the feed or a target, and may be left out where there is only one."""
    try:
        channel = _channel(channels, query.get("channel", ""))
        metadata = _metadata(query.get("metadata", "[]"))
        told = await channel.explain(query.get("method", ""), metadata, WITHIN)
    except (ValueError, TypeError) as error:
        return Refusal(400, str(error))
    except (RpcError, trio.ClosedResourceError) as error:
        return Refusal(503, str(error))
    return json.dumps(told.as_data() | {"text": str(told)}, ensure_ascii=False)


def _channel(channels: Mapping[str, Explaining], wanted: str) -> Explaining:
    for key, channel in channels.items():
        if wanted in (key, channel._state.target) or (not wanted and len(channels) == 1):
            return channel
    there = ", ".join(f"{key} ({channel._state.target})" for key, channel in channels.items())
    raise ValueError(f"this program has no channel {wanted!r}; there are {there}")


def _metadata(text: str) -> list[tuple[str, str | bytes]]:
    """From a list of pairs; the values of -bin keys are base64, as on the wire."""
    try:
        return [(key, _value(key, value)) for key, value in parse_json(text)]
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"metadata is a JSON list of pairs of texts, -bin values in base64: {error}") from None


def _value(key: str, value: Any) -> str | bytes:
    if not key.lower().endswith("-bin"):
        return str(value)
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
