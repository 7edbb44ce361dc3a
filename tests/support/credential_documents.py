"""Bootstraps with credentials, and tokens."""

from __future__ import annotations

import base64
import json
from typing import Any

PLANE = "plane.example:443"


def server(*creds: Any, **fields: Any) -> dict[str, Any]:
    return {"xds_servers": [{"server_uri": PLANE, "channel_creds": list(creds), **fields}], "node": {"id": "web-1"}}


def tls(**config: Any) -> dict[str, Any]:
    return {"type": "tls", "config": config}


def jwt(**claims: Any) -> str:
    head, body = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims))
    return f"{head}.{body}.signature"
