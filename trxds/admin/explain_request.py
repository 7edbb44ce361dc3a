"""The request by which a command asks where a call of this program would go.

    GET /explain?channel=shop&method=/shop.Cart/Add&metadata=[["canary","yes"]]

The response is one line of JSON: `Explanation.as_data()`, and as `text` the lines that people read. As with
`channel.explain`, no call is sent and no connection is made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import trio

from trxds.core.json_parse import parse_json
from trxds.core.metadata import from_text
from trxds.core.status import RpcError

from .channel_source import Source
from .http import HttpError, error_response, text_response

PARAMETERS = ("channel", "method", "metadata")
EXPLAIN_TIMEOUT = 4.0  # seconds for a configuration; a command that asks has the patience of one second more


async def answer_explain(channels: Mapping[str, Source], query: Mapping[str, str]) -> bytes:
    """Return the response. `channel` is a key or a target, and may be left out if there is only one channel."""
    try:
        channel = _channel(channels, query.get("channel", ""))
        metadata = _metadata(query.get("metadata", "[]"))
        explanation = await channel.explain(query.get("method", ""), metadata, EXPLAIN_TIMEOUT)
    except (ValueError, TypeError) as error:
        return error_response(HttpError(400, str(error)))
    except (RpcError, trio.ClosedResourceError) as error:
        return error_response(HttpError(503, str(error)))
    return text_response(200, json.dumps(explanation.as_data() | {"text": str(explanation)}, ensure_ascii=False))


def _channel(channels: Mapping[str, Source], wanted: str) -> Source:
    targets = {key: channel.admin_view().target for key, channel in channels.items()}
    for key, channel in channels.items():
        if wanted in (key, targets[key]) or (not wanted and len(channels) == 1):
            return channel
    known = ", ".join(f"{key} ({target})" for key, target in targets.items())
    raise ValueError(f"this program has no channel {wanted!r}; it has {known}")


def _metadata(text: str) -> list[tuple[str, str | bytes]]:
    """Parse a list of pairs; the values of -bin keys are base64, as in HTTP/2 headers."""
    try:
        return [(key, from_text(key, value)) for key, value in parse_json(text)]
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"metadata is a JSON list of pairs of texts, -bin values in base64: {error}") from None
