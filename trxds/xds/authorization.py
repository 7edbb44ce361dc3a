"""The tokens that go with an ADS stream (A97).

They are fetched anew for each stream: those are rare, and whoever keeps a token fresh in its file
has then not done so in vain.
"""

from __future__ import annotations

import base64
import binascii
from functools import partial
from importlib import import_module
from pathlib import Path

from trxds.core.json_parse import parse_json
from trxds.core.metadata import Headers, describe_flaw
from trxds.transport.run_in_thread import run_in_thread

from .bootstrap import ServerConfig
from .channel_credentials import GoogleDefault

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


async def authorization(server: ServerConfig) -> Headers:
    """`authorization` for each of the server's call credentials; `OSError` says why one cannot be had."""
    tokens = [await run_in_thread(partial(read_token, each.path)) for each in server.call_credentials]
    if isinstance(server.credentials, GoogleDefault):
        tokens.append(await run_in_thread(_google_token))  # the one library of Google's that fetches it blocks
    return [(b"authorization", b"Bearer " + token.encode()) for token in tokens]


def read_token(path: str) -> str:
    """The JWT in that file. The server judges it; we only see that it is one, with an expiry (A97)."""
    try:
        token = Path(path).read_text("ascii").strip()
    except UnicodeDecodeError:
        raise OSError(f"jwt_token_file {path} holds no JWT; write a token there") from None
    except OSError as error:
        raise OSError(f"jwt_token_file {path} cannot be read: {error.strerror or error}") from None
    if not _expires(token):
        raise OSError(f"jwt_token_file {path} holds no JWT with an exp field; write a token there")
    return _sendable(token, f"jwt_token_file {path}")


def _sendable(token: str, source: str) -> str:
    """Base64 decoders pass over a line end in the middle, and a header cannot have it."""
    if not token or (wrong := describe_flaw(token)):
        raise OSError(f"{source}: its token {f'has {wrong}' if token else 'is empty'}, so it cannot be sent")
    return token


def _expires(token: str) -> bool:
    try:
        # JWTs leave the padding of base64 out (RFC 7515, 2), and b64decode wants it.
        payload = token.split(".")[1]
        claims = parse_json(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return isinstance(claims, dict) and isinstance(claims.get("exp"), int | float)
    except (IndexError, binascii.Error, ValueError):
        return False


def _google_token() -> str:
    auth, transport = import_module("google.auth"), import_module("google.auth.transport.requests")
    try:
        credentials, _ = auth.default(scopes=[_SCOPE])
    except Exception as error:  # its own, and whatever else it has for a file of credentials that is none
        raise OSError(f"google_default: no token: {str(error) or type(error).__name__}") from None
    try:
        credentials.refresh(transport.Request())
    except Exception as error:  # by its kind alone: its text may quote what the token's endpoint answered
        raise OSError(f"google_default: no token: to fetch one ended in {type(error).__name__}") from None
    return _sendable(credentials.token or "", "google_default")
